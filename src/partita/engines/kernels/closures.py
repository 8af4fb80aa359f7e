"""Everything before or after an item, as rows of bits, and sums over it."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Words
from partita.engines.kernels.bits import add, listed
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.graph_arrays import GraphArrays
from partita.engines.kernels.rows import row_of


@compiled
def closure_bits(graph: GraphArrays, first_to_last: bool) -> Words:
    """(n, words) rows of all that comes before each item with ``first_to_last``, otherwise after it; and itself.

    Items are numbered in an order of the graph.
    """
    ptr, adjacent = (graph.pred_ptr, graph.pred) if first_to_last else (graph.succ_ptr, graph.succ)
    n = ptr.shape[0] - 1
    words = (n + 63) // 64
    bits = np.zeros((n, words), np.uint64)
    for i in range(n):
        v = i if first_to_last else n - 1 - i
        add(bits[v], v)
        start, end = (0, v // 64 + 1) if first_to_last else (v // 64, words)
        for u in row_of(ptr, adjacent, v):
            for j in range(start, end):
                bits[v, j] |= bits[u, j]
    return bits


@compiled
def closure_sums(graph: GraphArrays, weights: Floats, first_to_last: bool, sums: Floats) -> None:
    """``sums[row, v]``: weight of v and all before it with ``first_to_last``, otherwise after it."""
    rows, n = weights.shape
    bits = closure_bits(graph, first_to_last)
    members = np.empty(n, np.int32)
    for v in range(n):
        for u in members[: listed(bits[v], members)]:
            for row in range(rows):
                sums[row, v] += weights[row, u]


@compiled
def chain_sums(graph: GraphArrays, weights: Floats, first_to_last: bool, sums: Floats) -> None:
    """As ``closure_sums``, but the heaviest chain only: a lower bound, for graphs too large for closures."""
    ptr, adjacent = (graph.pred_ptr, graph.pred) if first_to_last else (graph.succ_ptr, graph.succ)
    rows, n = weights.shape
    for i in range(n):
        v = i if first_to_last else n - 1 - i
        for row in range(rows):
            best = 0.0
            for u in row_of(ptr, adjacent, v):
                best = max(best, sums[row, u])
            sums[row, v] = best + weights[row, v]
