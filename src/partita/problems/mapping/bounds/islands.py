"""Groups of devices with slow links between them: what has to be inside one group, and whether that fits.

Source: own. Fix a speed. *Islands* are the components of the links that are at least so fast; every other link is at
least as slow as the fastest one between two islands. This is what a machine is to its network, a quadrant of a mesh to
the rest, a block of a random topology; it comes from the matrix alone.

**Whole groups.** Within a target, some exchanges can only use links inside islands. Replicas that are connected by such
exchanges are in one island. So many groups of such a size have to be packed into islands of given sizes, and islands of
size m take at most floor(m/g) groups of at least g replicas: counting that for every g is necessary. So is that the
devices that sums of sizes of groups can fill, island by island, are as many as there are replicas: few to spare, and
every island has to be filled nearly to the last device.

**Shapes.** A replica and those it can reach by exchanges inside its island form a connected set P of at most as many
replicas as the island has devices, and no exchange between P and other replicas is inside the island. So each member of
P pays the slow speed for its partners outside P and, for those inside, at best the fastest links of the island, each
once. Is there no such set around a replica of stage s with all members within the target, then s is not in the island.
Sets grow from the replica alone: while a member is beyond the target, one of its partners outside has to be in P, and
all are tried. This is the isoperimetric argument for small sets: how much traffic at least leaves any set of m replicas
per member.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache, reduce
from operator import or_

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Bools, Floats
from partita.ground.dags import joined, members_of
from partita.problems.mapping.instance import MappingInstance, MappingReplicas

#: Largest islands whose sets are looked at, partitions into islands, and sets tried for one stage in one island.
LARGEST, _PARTITIONS, SETS = 64, 6, 3_000


class Islands:
    """The partitions of a problem's devices that are looked at."""

    def __init__(self, instance: MappingInstance, sets: int = SETS) -> None:
        self.instance, self.sets = instance, sets
        #: Of each the members of every island with seconds per byte of the fastest links inside, one device's each,
        #: ascending; and seconds per byte between islands, at least.
        self.partitions: list[tuple[list[tuple[npt.NDArray[np.int64], tuple[float, ...]]], float]] = []
        inverse = instance.arrays.inverse
        #: By stage and island the largest limit that no set is within, and the least at which there may be one.
        self._known: dict[tuple[object, ...], tuple[float, float]] = {}
        for label in _partitions(instance):
            outside = float(inverse[label[:, None] != label[None, :]].min())
            islands = []
            for name in np.unique(label):
                members = np.flatnonzero(label == name)
                block = np.sort(inverse[np.ix_(members, members)], axis=1)[:, 1:]
                # Never slower than a link that leads out of the island, so that partners inside are no loss.
                inside = np.minimum(block.min(axis=0), outside).tolist() if len(members) > 1 else ()
                islands.append((members, tuple(inside)))
            self.partitions.append((islands, outside))

    def filter(self, domain: Bools, limit: float, stopping: Callable[[], bool]) -> bool:
        """Take islands out of the domains of stages that cannot be there; whether every stage still has devices."""
        for islands, outside in self.partitions:
            for members, inside in islands:
                times = self.instance.arrays.time[:, members].min(axis=1)
                for s in range(self.instance.stages):
                    if stopping():
                        return True
                    # Replicas of one stage are alike.
                    key = (self.instance.stage_of[s], len(members), inside, outside, times.tobytes())
                    refuted, left = self._known.get(key, (-math.inf, math.inf))
                    if refuted < limit < left:
                        if possible(self.instance, s, len(members), inside, outside, times, limit, self.sets):
                            left = limit
                        else:
                            refuted = limit
                        self._known[key] = refuted, left
                    if limit <= refuted:
                        domain[s, members] = False
        return bool(domain.any(axis=1).all())


def possible(
    instance: MappingReplicas,
    s: int,
    room: int,
    inside: tuple[float, ...],
    outside: float,
    times: Floats,
    limit: float,
    sets: int = SETS,
) -> bool:
    """Whether some set around a replica of a stage is within the limit; True if that takes more sets than ``sets``.

    ``room`` is the devices of its island, ``inside`` seconds per byte of the fastest links there, ``outside`` those of
    the fastest that lead out, ``times`` (S,) what a replica of every stage takes there without communication.
    """
    ring, exchanges = instance.ring, instance.exchanges_of
    # A set with all partners of a member may be too large for the island; then it is a bound on smaller ones.
    inside = (*inside, *(outside,) * (instance.stages + 2))

    @cache
    def load(t: int, within: tuple[bool, ...], rings: int) -> float:
        """Least load of a replica of t with some of its partners inside."""
        sizes = sorted((w for (_, w), mine in zip(exchanges[t], within, strict=True) if mine), reverse=True)
        total, bytes_in_ring = float(times[t]), float(ring[t])
        total += outside * sum(w for (_, w), mine in zip(exchanges[t], within, strict=True) if not mine)
        if bytes_in_ring == 0:
            return total + sum(w * x for w, x in zip(sizes, inside, strict=False))
        around = instance.partners[t]
        if rings < around:
            return total + bytes_in_ring * outside + sum(w * x for w, x in zip(sizes, inside, strict=False))
        best = math.inf
        count = len(sizes) + around
        for last in range(around - 1, count):
            rest = [inside[k] for k in range(count) if not last - around < k <= last]
            best = min(best, sum(w * x for w, x in zip(sizes, rest, strict=True)) + bytes_in_ring * inside[last])
        return total + best

    @cache
    def ties(x: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """Partners of a replica in exchanges and in its ring, by number, and the set of all."""
        t, r = divmod(x, instance.replicas)
        others = tuple(u * instance.replicas + r for u, _ in exchanges[t])
        rings = tuple(u * instance.replicas + q for u, q in instance.beside(t, r))
        return others, rings, _union(1 << y for y in (*others, *rings))

    @cache
    def least(x: int, partners: int) -> float:
        others, rings, _ = ties(x)
        within = tuple(bool(partners >> y & 1) for y in others)
        return load(x // instance.replicas, within, sum(partners >> y & 1 for y in rings))

    def beyond(x: int, chosen: int) -> bool:
        return least(x, chosen & ties(x)[2]) > limit

    # Sets are bits, beside those of their members that may be beyond the limit: more partners inside are no loss.
    first = s * instance.replicas
    pending: list[tuple[int, tuple[int, ...]]] = [(1 << first, (first,))]
    tried = {1 << first}
    while pending:
        chosen, doubted = pending.pop()
        if len(tried) > sets:
            return True
        doubted = tuple(x for x in doubted if beyond(x, chosen))
        if not doubted:
            return True
        if chosen.bit_count() == room or any(beyond(x, chosen | ties(x)[2]) for x in doubted):
            continue
        missing = [[1 << y for y in members_of(ties(x)[2] & ~chosen)] for x in doubted]
        # Partners without which a member is beyond the limit whatever else is inside: these need no choice.
        pairs = zip(doubted, missing, strict=True)
        needed = _union(one for x, some in pairs for one in some if beyond(x, (chosen | ties(x)[2]) & ~one))
        for one in [needed] if needed else min(missing, key=len):
            option = chosen | one
            if option.bit_count() <= room and option not in tried:
                tried.add(option)
                pending.append((option, (*doubted, *members_of(one))))
    return False


def _union(sets: Iterable[int]) -> int:
    return reduce(or_, sets, 0)


def _partitions(instance: MappingInstance) -> list[npt.NDArray[np.int64]]:
    """Components of ever slower links, as labels of devices: those with more than one part that are not too large.

    A maximum spanning tree (Prim) knows all of them: its links, the fastest first, join components.
    """
    count = instance.devices
    apart = np.minimum(instance.arrays.inverse, instance.arrays.inverse.T)
    near, source = apart[0].copy(), np.zeros(count, dtype=np.int64)
    inside = np.zeros(count, dtype=bool)
    inside[0] = True
    links: list[tuple[float, int, int]] = []
    for _ in range(count - 1):
        new = int(np.argmin(np.where(inside, np.inf, near)))
        links.append((float(near[new]), int(source[new]), new))
        inside[new] = True
        closer = apart[new] < near
        near[closer], source[closer] = apart[new][closer], new
    links.sort()
    label, found = np.arange(count), []
    for place, (value, a, b) in enumerate(links):
        if value > (links[place - 1][0] if place else 0.0) and place:
            sizes = np.bincount(label)
            if 1 < sizes.max() <= LARGEST:
                found.append(label.copy())
        label = np.where(label == label[b], label[a], label)
    return found[-_PARTITIONS:]


def components(linked: Bools) -> list[npt.NDArray[np.int64]]:
    """The connected components of a symmetric relation; members of each, ascending."""
    label = np.arange(len(linked))
    while True:
        lowest = np.where(linked, label[None, :], len(linked)).min(axis=1, initial=len(linked))
        fresh = np.minimum(label, lowest)
        fresh = np.minimum(fresh, fresh[fresh])
        if np.array_equal(fresh, label):
            return [np.flatnonzero(label == name) for name in np.unique(label)]
        label = fresh


def groups_fit(instance: MappingInstance, slowest: Mapping[tuple[int, int], float]) -> bool:
    """Whether whole groups can be packed.

    ``slowest`` is, by pair of stages (of one stage with itself: its ring), seconds per byte of the slowest link that
    its exchanges can use, in the faster direction.
    """
    apart = np.minimum(instance.arrays.inverse, instance.arrays.inverse.T)
    for value in sorted(set(slowest.values())):
        tied = [pair for pair, most in slowest.items() if most <= value]
        groups = _groups(instance, tied)
        largest = max(groups)
        if largest == 1:
            continue
        sizes = [len(members) for members in components((apart <= value) & ~np.eye(instance.devices, dtype=bool))]
        for size in groups:
            if sum(m // size for m in sizes) < sum(number for other, number in groups.items() if other >= size):
                return False
        if sum(map(_filled(tuple(groups), max(sizes)).__getitem__, sizes)) < instance.count:
            return False
    return True


def _filled(groups: tuple[int, ...], most: int) -> list[int]:
    """By devices of an island, up to so many, how many of them whole groups of some sizes can fill."""
    found = [0] * (most + 1)
    for room in range(1, most + 1):
        found[room] = max((size + found[room - size] for size in groups if size <= room), default=0)
    return found


def _groups(instance: MappingInstance, tied: list[tuple[int, int]]) -> Counter[int]:
    """How many groups of each size the replicas form that are tied together by some exchanges."""
    home = joined(instance.stages, tied)
    rings = {home[s] for s, t in tied if s == t}
    groups: Counter[int] = Counter()
    for first, stages in Counter(home).items():
        size, count = (stages * instance.replicas, 1) if first in rings else (stages, instance.replicas)
        groups[size] += count
    return groups
