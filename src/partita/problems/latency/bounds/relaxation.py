"""A latency problem with operators and edges left out, so that what is left is a chain of small blocks.

Leaving out is a relaxation: a plan without an operator, or without an edge, has pieces that do, hold and move no more,
that wait for no more, and no circle that was not there before. So its latency is no longer, and a bound for what is
left is one for the problem. What is kept lies between the two ends of a longest path, the *spine*; operators and edges
that pass by more than ``span`` operators of the spine are left out.

A *separator* is an operator of the spine that every other one kept comes before or after, and that no edge passes by.

**Side tensors** are what pieces pay for tensors of operators that the chain leaves out.

Take operators that are left out, hang together, and come after nothing that is kept: constants, weights and what is
made of them. Two kept operators are *apart* if one comes before the other and all that is between them does not fit
into one piece: pieces are convex, so no piece holds both.

*Connected readers.* Let r and r' be apart, and connected through tensors of these operators that each take at least c.
The piece of r has one of these tensors on its boundary: somewhere on the way to r' a tensor has an end inside and an
end outside. So the piece pays c for it, and likewise that of r'. The same holds for several readers, any two of them
apart.

*Kept out.* Let r read such an operator u. If u, or an operator that must be in the same piece with it, comes before a
kept operator that is apart from r, then u is not in the piece of r, which pays for the tensor of u. Operators of one
class are in one piece if accelerators have one.

What a piece pays so is beside what it pays for kept tensors. Two readers that may share a piece are not both charged
for the same tensor: of a group, charges of the first kind are for readers that are apart, and the second kind may
replace them there; or all are of the second kind, with one tensor for readers that are apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.ground.dags import joined
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


def side_times(view: View, chain: RelaxedChain) -> Floats:
    """By operator, how much longer its piece takes at least because it is there."""
    extra = np.zeros(view.count)
    limit = float(view.arrays.limit[0])
    if np.isinf(limit):
        return extra
    apart, first = _Apart(view, chain), _first_kept(view, chain)
    for group in _groups(view, chain):
        out = _kept_out(view, chain, apart, first, group)
        whole: dict[int, float] = {}
        for row in out.values():
            for r in apart.choose(sorted(row)):
                whole[r] = whole.get(r, 0.0) + row[r]
        times = sorted({float(view.arrays.comm[u]) for u in group if view.arrays.comm[u] > 0}, reverse=True)
        for least in times:
            for readers in _connected(view, chain, group, least):
                chosen = apart.choose(readers)
                if len(chosen) > 1:
                    single = {r: max(least, sum(row.get(r, 0.0) for row in out.values())) for r in chosen}
                    whole = max(whole, single, key=lambda charges: sum(charges.values()))
        for v, time in whole.items():
            extra[v] += time
    return extra


def _first_kept(view: View, chain: RelaxedChain) -> list[set[int]]:
    """By operator left out, the kept ones that come after it through others left out alone."""
    first: list[set[int]] = [set() for _ in range(view.count)]
    for v in range(view.count - 1, -1, -1):
        if v not in chain.kept:
            for w in view.after[v]:
                first[v] |= {w} if w in chain.kept else first[w]
    return first


def _kept_out(
    view: View, chain: RelaxedChain, apart: _Apart, first: list[set[int]], group: list[int]
) -> dict[int, dict[int, float]]:
    """By operator u of a group, the kept readers whose pieces cannot hold it, with the time of its tensor."""
    single = view.passes == 1 and view.problem.pieces == 1
    found: dict[int, dict[int, float]] = {}
    for u in group:
        mates = view.classes[view.arrays.group.of[u]] if single else [u]
        before = {x for w in mates for x in ({w} if w in chain.kept else first[w])}
        rows = {
            r: float(view.arrays.comm[u])
            for r in view.after[u]
            if r in chain.kept and any(apart.apart(x, r) for x in before)
        }
        if rows:
            found[u] = rows
    return found


def _groups(view: View, chain: RelaxedChain) -> list[list[int]]:
    """Operators left out that come after nothing kept, those that hang together in one group."""
    aside: dict[int, None] = {}
    for v in range(view.count):
        if v not in chain.kept and all(u in aside for u in view.before[v]):
            aside[v] = None
    return _together(view, aside, [(u, v) for u in aside for v in view.after[u] if v in aside])


def _together(view: View, some: Iterable[int], pairs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Some operators by what pairs join them, in their order."""
    first, found = joined(view.count, pairs), dict[int, list[int]]()
    for v in some:
        found.setdefault(first[v], []).append(v)
    return list(found.values())


def _connected(view: View, chain: RelaxedChain, group: list[int], least: float) -> list[list[int]]:
    """Kept readers by what connects them through tensors of the group that take at least so long."""
    pairs = [(u, v) for u in group if view.arrays.comm[u] >= least for v in view.after[u]]
    readers = dict.fromkeys(v for _, v in pairs if v in chain.kept)
    return [sorted(row) for row in _together(view, readers, pairs) if len(row) > 1]


class _Apart:
    """Which kept operators cannot share a piece."""

    def __init__(self, view: View, chain: RelaxedChain) -> None:
        self.mem, self.limit = view.arrays.mem, float(view.arrays.limit[0])
        self.known: dict[tuple[int, int], bool] = {}
        self.below = [0] * view.count
        self.above = [0] * view.count
        for v in sorted(chain.kept, reverse=True):
            self.below[v] = 1 << v
            for w in chain.after[v]:
                self.below[v] |= self.below[w]
        for v in sorted(chain.kept):
            self.above[v] |= 1 << v
            for w in chain.after[v]:
                self.above[w] |= self.above[v]

    def apart(self, first: int, last: int) -> bool:
        """Whether the first one comes before the last, and all between them together do not fit."""
        if (first, last) not in self.known:
            between = self.below[first] & self.above[last]
            held = sum(float(self.mem[v]) for v in range(first, last + 1) if between >> v & 1)
            self.known[first, last] = held > self.limit
        return self.known[first, last]

    def choose(self, readers: list[int]) -> list[int]:
        """Some of them of which no two can share a piece."""
        chosen: list[int] = []
        for v in readers:
            if all(self.apart(u, v) for u in chosen):
                chosen.append(v)
        return chosen
