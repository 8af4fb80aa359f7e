"""Small arrays for compiled kernels, and the sets of items that brute force goes through.

All numbers are multiples of one half, so that sums are exact whichever way they are added up.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from hypothesis import strategies as st

from instances.strategies import halves
from partita.engines.kernels.graph_arrays import graph_of, sets_of
from partita.engines.kernels.throughput.blocks import BlockProblem

__all__ = ["NEVER", "block_problems", "cost_of", "dags", "paths_between", "row_of", "subsets", "values"]

#: A stop flag that nobody raises.
NEVER = np.zeros(1, np.int64)

Edges = list[tuple[int, int]]


@st.composite
def dags(draw: st.DrawFn, least: int = 1, most: int = 6) -> tuple[int, Edges]:
    """How many nodes, numbered topologically, and edges from the earlier to the later one."""
    n = draw(st.integers(least, most))
    pairs = list(itertools.combinations(range(n), 2))
    return n, sorted(draw(st.lists(st.sampled_from(pairs), unique=True, max_size=8))) if pairs else []


def values(count: int, low: float = 0.5, high: float = 4.0) -> st.SearchStrategy[np.ndarray]:
    """So many numbers."""
    return st.lists(halves(low, high), min_size=count, max_size=count).map(lambda row: np.array(row, np.float64))


def subsets(count: int) -> Iterator[frozenset[int]]:
    """All sets of items that are not empty."""
    for size in range(1, count + 1):
        for chosen in itertools.combinations(range(count), size):
            yield frozenset(chosen)


def paths_between(n: int, edges: Sequence[tuple[int, int]]) -> list[set[int]]:
    """For every node all that it reaches, itself included."""
    reach = [{v} for v in range(n)]
    for v in reversed(range(n)):
        for u, w in edges:
            if u == v:
                reach[v] |= reach[w]
    return reach


def row_of(members: set[int] | frozenset[int], n: int) -> np.ndarray:
    """A set of items as the words of bits that kernels read."""
    number = sum(1 << v for v in members)
    return np.array([number >> 64 * j & (1 << 64) - 1 for j in range((n + 63) // 64)], np.uint64)


@st.composite
def block_problems(draw: st.DrawFn, *, most: int = 6, memory: bool = False) -> BlockProblem:
    """Items to be put into up to three blocks; with ``memory`` there may be a limit, hard or at a price."""
    n, edges = draw(dags(2, most))
    nets = draw(st.lists(st.sets(st.integers(0, n - 1), min_size=2).map(sorted), max_size=4))
    covers = draw(st.lists(st.sets(st.integers(0, n - 1), min_size=1).map(sorted), max_size=2)) if memory else []
    limit = [draw(halves(1, 8)), draw(st.sampled_from([0.5, 2.0, np.inf]))] if memory else [np.inf, np.inf]
    return BlockProblem(
        graph=graph_of(edges, n),
        net=sets_of(nets, n),
        cover=sets_of(covers, n),
        work=draw(values(n, 0.0)),
        cost=draw(values(len(nets))),
        held=draw(values(n, 0.0)) if memory else np.zeros(n),
        workspace=draw(values(n, 0.0)) if memory else np.zeros(n),
        cover_bytes=draw(values(len(covers))),
        limit=np.array(limit),
        devices=draw(st.integers(1, 3)),
        group=np.zeros(n, np.int32),
        kept=np.arange(len(nets)),
    )


def cost_of(a: BlockProblem, block: frozenset[int] | set[int]) -> float:
    """What a block costs: work, the nets that are cut, and what it holds beyond the limit."""
    if not block:
        return 0.0
    total = float(sum(a.work[v] for v in block))
    for e in range(a.nets):
        inside = len(block & set(a.net.members(e).tolist()))
        if 0 < inside < len(a.net.members(e)):
            total += float(a.cost[e])
    held = sum(a.held[v] for v in block) + max(a.workspace[v] for v in block)
    held += sum(size for c, size in enumerate(a.cover_bytes) if block & set(a.cover.members(c).tolist()))
    over = float(held - a.limit[0])
    return total + (over * float(a.limit[1]) if over > 0 else 0.0)
