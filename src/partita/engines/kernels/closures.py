"""Everything before or after an item, as rows of bits or as intervals, and sums over it."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Words
from partita.engines.kernels.bits import add, listed
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.graph_arrays import GraphArrays
from partita.engines.kernels.rows import row_of

#: Items up to which sums over everything before or after an item are computed exactly (n² bits).
LARGEST_CLOSURE = 15_000
#: Twice the relative error of one rounding.
EPSILON = float(np.finfo(np.float64).eps)
#: Most intervals for what does not come before an item.
SPANS = 16


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
def _met(first: Ints, second: Ints, counts: tuple[int, int], out: Ints) -> int:
    """Places in both of two lists of intervals, as at most ``SPANS`` intervals: across the shortest gaps if need be."""
    i = j = count = 0
    while i < counts[0] and j < counts[1]:
        low, high = max(first[i, 0], second[j, 0]), min(first[i, 1], second[j, 1])
        if low < high:
            if count == SPANS:
                # The shortest gap, that before the new one included.
                at, gap = count, low - out[count - 1, 1]
                for k in range(1, count):
                    if out[k, 0] - out[k - 1, 1] < gap:
                        at, gap = k, out[k, 0] - out[k - 1, 1]
                if at == count:
                    out[count - 1, 1] = high
                else:
                    out[at - 1, 1] = out[at, 1]
                    for k in range(at, count - 1):
                        out[k] = out[k + 1]
                    out[count - 1, 0], out[count - 1, 1] = low, high
            else:
                out[count, 0], out[count, 1] = low, high
                count += 1
        if first[i, 1] < second[j, 1]:
            i += 1
        else:
            j += 1
    return count


@compiled
def span_sums(graph: GraphArrays, weights: Floats, first_to_last: bool, sums: Floats) -> None:
    """As ``closure_sums``, or less: for graphs too large for closures.

    What is numbered before an item and does not come before it is kept as intervals of numbers: for each predecessor
    those of it, and all numbers between the two; then what is in all of these lists. That is exact while few intervals
    do, as in graphs that are long and thin, and takes a time in proportion to the edges.
    """
    ptr, adjacent = (graph.pred_ptr, graph.pred) if first_to_last else (graph.succ_ptr, graph.succ)
    rows, n = weights.shape
    spans, counts = np.empty((n, SPANS, 2), np.int32), np.zeros(n, np.int32)
    mine, other, both = np.empty((3, SPANS + 1, 2), np.int32)
    before = np.zeros((rows, n + 1))
    for i in range(n):
        v = i if first_to_last else n - 1 - i
        for row in range(rows):
            before[row, i + 1] = before[row, i] + (weights[row, v] if np.isfinite(weights[row, v]) else 0.0)
        mine[0, 0], mine[0, 1] = 0, i
        count = 1 if i else 0
        for u in row_of(ptr, adjacent, v):
            at = u if first_to_last else n - 1 - u
            size = counts[at]
            other[:size] = spans[at, :size]
            if at + 1 < i:
                other[size, 0], other[size, 1] = at + 1, i
                size += 1
            count = _met(mine, other, (count, size), both)
            mine[:count] = both[:count]
        spans[i, :count], counts[i] = mine[:count], count
        for row in range(rows):
            sums[row, v] = before[row, i + 1]
            for k in range(count):
                sums[row, v] -= before[row, mine[k, 1]] - before[row, mine[k, 0]]
            # Infinite weights would leave no number of what is subtracted: they are handed on from item to item.
            if np.isinf(weights[row, v]):
                sums[row, v] = np.inf
            for u in row_of(ptr, adjacent, v):
                if np.isinf(sums[row, u]):
                    sums[row, v] = np.inf


def before_and_after(graph: GraphArrays, weights: Floats, first_to_last: bool) -> Floats:
    """``closure_sums``, or lower bounds of them where there are more than ``LARGEST_CLOSURE`` items."""
    sums = np.zeros_like(weights)
    if weights.shape[1] <= LARGEST_CLOSURE:
        closure_sums(graph, weights, first_to_last, sums)
        return sums
    span_sums(graph, weights, first_to_last, sums)
    # Each is a difference of sums of up to all items, which are rounded once for each.
    total = np.where(np.isfinite(weights), weights, 0.0).sum(axis=1, keepdims=True)
    least: Floats = np.maximum(weights, sums - weights.shape[1] * EPSILON * total)
    return least
