"""What a replica may have inside and outside of its island within a target: islands with their distances, and parts.

Source: own. *Islands* are the components of links of some speed, as in ``partita.problems.mapping.bounds.islands``; a
*column* is one replica of every stage, replicas r of all of them. The stages of a column that are in one island fall
into *parts* that exchanges connect: what a member of a part exchanges with a stage outside of the part leaves the
island.

*Classes.* The other islands are as far from an island as the fastest link to them. Sorted by that they fall into a few
classes, each as near as its nearest island. A replica's *reach* says for each partner outside of its part, and for its
ring, which class is the furthest that it may be in: the furthest reaches within a target are kept, since every replica
within the target is within one of them. Inside, a replica uses the fastest links of the island, each once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Floats
from partita.problems.mapping.bounds.islands import components
from partita.problems.mapping.bounds.moving import least_moving
from partita.problems.mapping.instance import MappingInstance

#: Partitions that are looked at, and most devices of an island, as a share of all.
_PARTITIONS, _LARGEST = 2, 0.75
#: Least factor between the classes of an island, and most classes.
_GROWTH, _CLASSES = 1.3, 5
#: Parts of a column at most; of more there is no bound.
MOST_PARTS = 5_000
#: Ways to cut a column into parts at most that are told apart.
MOST_SPLITS = 10_000


class Island(NamedTuple):
    """Devices with fast links among them."""

    members: npt.NDArray[np.int64]
    #: Seconds per byte of the fastest links inside, ascending, never above ``costs[0]``, and as many of that.
    inside: tuple[float, ...]
    #: Seconds per byte to the nearest island of every class, rising.
    costs: tuple[float, ...]
    classes: tuple[tuple[int, ...], ...]  #: The islands of every class, the nearest first.
    times: tuple[float, ...]  #: (S,) What a replica of each stage takes there at least without communication.

    @property
    def others(self) -> tuple[int, ...]:
        """All other islands, the nearest first."""
        return tuple(j for islands in self.classes for j in islands)

    @property
    def key(self) -> tuple[object, ...]:
        """What the reaches of its replicas depend on."""
        return self.inside, self.costs, self.times


class Reach(NamedTuple):
    """The furthest classes of the partners of a replica: those outside of its part, in their order, and its ring.

    Class 0 is the island itself, for rings; ``ring`` is that for both partners there.
    """

    partners: tuple[int, ...]
    ring: int


def partitions(instance: MappingInstance) -> Iterator[list[Island]]:
    """Islands of the slowest links that part devices, then of the next faster ones."""
    apart = np.minimum(instance.arrays.inverse, instance.arrays.inverse.T)
    other = ~np.eye(instance.devices, dtype=bool)
    found = 0
    value = _bottleneck(apart)
    while found < _PARTITIONS and math.isfinite(value):
        groups = components((apart < value) & other)
        if sum(len(group) for group in groups if len(group) > 1) < instance.devices / 2:
            return
        if max(map(len, groups)) <= _LARGEST * instance.devices:
            found += 1
            yield islands_of(instance, groups)
        value = max(_bottleneck(apart[np.ix_(group, group)]) for group in groups)


def _bottleneck(apart: Floats) -> float:
    """Seconds per byte of the slowest link of a minimum spanning tree: without such links there are parts."""
    if len(apart) < 2:
        return -math.inf
    near = apart[0].copy()
    inside = np.zeros(len(apart), dtype=bool)
    inside[0], slowest = True, -math.inf
    for _ in range(len(apart) - 1):
        new = int(np.argmin(np.where(inside, np.inf, near)))
        slowest, inside[new] = max(slowest, float(near[new])), True
        near = np.minimum(near, apart[new])
    return slowest


def islands_of(instance: MappingInstance, groups: list[npt.NDArray[np.int64]]) -> list[Island]:
    """Islands of some groups that the devices are put into in any way, with what links they have at best."""
    inverse, found = instance.arrays.inverse, []
    most = int(np.diff(instance.ptr).max(initial=0)) + 2
    for number, members in enumerate(groups):
        row = inverse[members].min(axis=0)
        nearest = [(float(row[group].min()), j) for j, group in enumerate(groups) if j != number]
        costs: list[float] = []
        classes: list[list[int]] = []
        for cost, j in sorted(nearest):
            if not costs or (cost > _GROWTH * costs[-1] and len(costs) < _CLASSES):
                costs.append(cost)
                classes.append([])
            classes[-1].append(j)
        block = np.sort(inverse[np.ix_(members, members)], axis=1)[:, 1:]
        inside = np.minimum(block.min(axis=0), costs[0]).tolist()[:most] if len(members) > 1 else []
        inside += [costs[0]] * (most - len(inside))
        times = instance.arrays.time[:, members].min(axis=1)
        found.append(Island(members, tuple(inside), tuple(costs), tuple(map(tuple, classes)), tuple(map(float, times))))
    return found


class Column:
    """The stages of a column and their exchanges: parts, and what reaches a target leaves."""

    def __init__(self, instance: MappingInstance) -> None:
        self.instance = instance
        self._known: dict[tuple[object, ...], tuple[Reach, ...]] = {}

    @cached_property
    def partners(self) -> list[frozenset[int]]:
        """By stage those that it exchanges bytes with."""
        return [frozenset(t for t, _ in row) for row in self.instance.exchanges_of]

    @cached_property
    def parts(self) -> list[frozenset[int]] | None:
        """All sets of stages that exchanges connect; None if they are too many."""
        edge = {frozenset([s]) for s in range(self.instance.stages)}
        found = set(edge)
        while edge:
            edge = {part | {t} for part in edge for t in set().union(*(self.partners[s] for s in part)) - part} - found
            found |= edge
            if len(found) > MOST_PARTS:
                return None
        return sorted(found, key=lambda part: (len(part), sorted(part)))

    def splits(self, those: set[frozenset[int]]) -> list[tuple[frozenset[int], ...]] | None:
        """All ways to cut a column into some of its parts; None if they are too many."""
        by_first: list[list[frozenset[int]]] = [[] for _ in range(self.instance.stages)]
        for part in sorted(those, key=lambda part: (len(part), sorted(part))):
            by_first[min(part)].append(part)
        found: list[tuple[frozenset[int], ...]] = []
        pending: list[tuple[tuple[frozenset[int], ...], frozenset[int]]] = [
            ((), frozenset(range(self.instance.stages)))
        ]
        while pending:
            chosen, left = pending.pop()
            if not left:
                found.append(chosen)
                if len(found) > MOST_SPLITS:
                    return None
                continue
            pending += [((*chosen, part), left - part) for part in by_first[min(left)] if part <= left]
        return found

    def outside(self, s: int, part: frozenset[int]) -> list[tuple[int, float]]:
        """Partners of a member of a part that are not in it, and bytes."""
        return [(t, moved) for t, moved in self.instance.exchanges_of[s] if t not in part]

    def reaches(self, island: Island, s: int, part: frozenset[int], limit: float) -> tuple[Reach, ...]:
        """The furthest reaches of a member of a part within a limit; none if it is not within it in any way."""
        inside = tuple(moved for t, moved in self.instance.exchanges_of[s] if t in part)
        outside = tuple(moved for _, moved in self.outside(s, part))
        key = (island.key, s, inside, outside, limit)
        if key not in self._known:
            self._known[key] = tuple(self._furthest(island, s, inside, outside, limit))
        return self._known[key]

    def forget(self) -> None:
        """Drop what is known of a limit."""
        self._known.clear()

    def _furthest(
        self, island: Island, s: int, inside: tuple[float, ...], outside: tuple[float, ...], limit: float
    ) -> Iterator[Reach]:
        links, costs = np.array([island.inside]), np.array(island.costs)
        ring, around = float(self.instance.ring[s]), self.instance.partners[s]
        sizes = np.array(inside)
        alone = float(least_moving(sizes, 0.0, 0, links)[0])
        with_ring = [alone]
        if around:
            with_ring = [float(least_moving(sizes, ring, around, links)[0]), *(alone + ring * costs)]
        load = island.times[s] + np.array(with_ring)
        for moved in reversed(outside):
            load = np.add.outer(moved * costs, load)
        # The last axis is the ring, those before it the partners in their order.
        within = load <= limit
        furthest = within.copy()
        for axis in range(within.ndim):
            along = np.moveaxis(furthest, axis, 0)
            along[:-1] &= ~np.moveaxis(within, axis, 0)[1:]
        for place in np.argwhere(furthest).tolist():
            yield Reach(tuple(k + 1 for k in place[:-1]), place[-1] if around else len(costs))
