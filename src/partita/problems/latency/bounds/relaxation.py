"""A latency problem with operators and edges left out, so that what is left is a chain of small blocks.

Leaving out is a relaxation: a plan without an operator, or without an edge, has pieces that do, hold and move no more,
that wait for no more, and no circle that was not there before. So its latency is no longer, and a bound for what is
left is one for the problem. What is kept lies between the two ends of a longest path, the *spine*; operators and edges
that pass by more than ``span`` operators of the spine are left out.

A *separator* is an operator of the spine that every other one kept comes before or after, and that no edge passes by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.problems.latency.view import View


@dataclass(frozen=True)
class RelaxedChain:
    """What is left: separators in order, and the operators between each and the next."""

    #: Numbers of operators, in topological order; there is a block less than separators.
    separators: tuple[int, ...]
    blocks: tuple[tuple[int, ...], ...]
    after: Sequence[Sequence[int]]  #: The readers of every operator that are left, empty for operators left out.
    kept: frozenset[int]  #: All operators that are left.
    spine: frozenset[int]  #: The longest path.


def spine_of(view: View, weight: Floats) -> list[int]:
    """The operators on a longest path by these weights."""
    length, following = weight.copy(), [-1] * view.count
    for v in range(view.count - 1, -1, -1):
        for w in view.after[v]:
            if following[v] < 0 or length[w] > length[following[v]]:
                following[v] = w
        if following[v] >= 0:
            length[v] += length[following[v]]
    spine = [int(np.argmax(length))]
    while following[spine[-1]] >= 0:
        spine.append(following[spine[-1]])
    return spine


def chain_of(view: View, spine: list[int], span: float) -> RelaxedChain:
    """What is left of a problem along a spine."""
    n, last = view.count, len(spine) - 1
    place = {v: i for i, v in enumerate(spine)}
    kept = set(range(n))
    edges = [(u, v) for u in range(n) for v in view.after[u]]
    while True:
        # By operator, the last one of the spine at or before it, and the first one at or after it.
        low, high = [place.get(v, -1) for v in range(n)], [place.get(v, n) for v in range(n)]
        for u, v in sorted(edges, key=lambda edge: edge[1]):
            low[v] = max(low[v], low[u])
        for u, v in sorted(edges, reverse=True):
            high[u] = min(high[u], high[v])
        out = {v for v in kept if v not in place and (low[v] < 0 or high[v] > last or high[v] - low[v] > span)}
        left = [(u, v) for u, v in edges if not {u, v} & out and high[v] - low[u] <= span]
        if not out and len(left) == len(edges):
            break
        kept -= out
        edges = left
    covered = np.zeros(last + 2, np.int64)
    for first, end in [(low[v], high[v]) for v in kept] + [(low[u], high[v]) for u, v in edges]:
        if end - first > 1:
            covered[first + 1] += 1
            covered[end] -= 1
    numbers = np.flatnonzero(np.cumsum(covered)[: last + 1] == 0)
    separators = [spine[i] for i in numbers]
    blocks: list[list[int]] = [[] for _ in separators]
    for v in sorted(kept - set(separators)):
        blocks[int(np.searchsorted(numbers, low[v], side="right")) - 1].append(v)
    after: list[list[int]] = [[] for _ in range(n)]
    for u, v in edges:
        after[u].append(v)
    return RelaxedChain(
        tuple(separators), tuple(tuple(row) for row in blocks[:-1]), after, frozenset(kept), frozenset(spine)
    )
