"""Bounds where machines are counted: those of listed devices, for sorts of devices instead of devices.

Source: own. Replicas of one stage are alike, and so are devices of one sort, so that what ``neighbours`` and
``thresholds`` say of every stage and device is said once of every stage and sort:

- what a replica takes with the fastest links, and by counting whether all find devices where that is within a target
  (Hall's condition: the stages that can only be on some sorts have no more replicas than these have devices);
- *shapes* (``partita.problems.mapping.bounds.islands``), with a machine as an island.

Two more need no target, as every machine has to be left somewhere:

- A ring with more replicas than a machine has devices is in several machines. So one of its replicas has a link of the
  ring that leads outside.
- The same of the stages that exchange bytes with each other, directly or through others: if they are more than the
  devices of a machine, some exchange leads outside, at both ends.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import chain, combinations

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats
from partita.ground.dags import joined
from partita.ground.rounding import up_to
from partita.problems.mapping.bounds.islands import LARGEST, possible
from partita.problems.mapping.bounds.moving import least_moving, lowered
from partita.problems.mapping.counted import CountedInstance

#: Sorts up to which every set of them is counted; of more, single ones, all but one, and all.
_SETS = 10
#: Width of the interval at which bisection ends, as a share of its upper end.
_PRECISION = 1e-3


class CountedBounds:
    """A problem with devices enough, and what replicas take at least."""

    def __init__(self, instance: CountedInstance) -> None:
        self.instance = instance
        most = int(np.diff(instance.ptr).max(initial=0)) + 2
        self.links = instance.fastest(most)
        #: (S, K) What a replica of every stage takes at least on every sort.
        self.least = self._least()
        sets = range(1, len(instance.room) + 1) if len(instance.room) <= _SETS else (1, len(instance.room) - 1)
        self.sets = list(chain.from_iterable(combinations(range(len(instance.room)), size) for size in sets))
        self.sets.append(tuple(range(len(instance.room))))

    def _least(self) -> Floats:
        instance, known = self.instance, {}
        found = instance.time.copy()
        for s in range(instance.stages):
            sizes = instance.weight[instance.ptr[s] : instance.ptr[s + 1]]
            key = (sizes.tobytes(), float(instance.ring[s]), instance.partners[s])
            if key not in known:
                known[key] = least_moving(sizes, float(instance.ring[s]), instance.partners[s], self.links)
            found[s] += known[key]
        return found

    def covered(self, domain: Bools) -> bool:
        """Whether every stage finds devices of its own on the sorts where it can be, (S, K)."""
        rows, counts = np.unique(domain, axis=0, return_counts=True)
        for members in self.sets:
            inside = ~np.delete(rows, members, axis=1).any(axis=1)
            needed = int(counts[inside].sum()) * self.instance.replicas
            if needed > sum(self.instance.room[k] for k in members):
                return False
        return bool(rows.any(axis=1).all())

    def neighbours(self) -> float:
        """The bound of the fastest links and of devices for all; infinite if there are not enough."""
        if not self.instance.enough:
            return math.inf
        values = np.unique(self.least)
        low, high = 0, len(values) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.covered(self.least <= values[middle]) else (middle + 1, high)
        return float(values[low])

    def left(self) -> float:
        """What some replica takes because rings, or stages that exchange bytes, do not fit into one machine."""
        instance = self.instance
        largest = max(instance.together)
        if not instance.even:
            return 0.0
        found = [0.0]
        for s in range(instance.stages):
            if instance.ring[s] > 0 and instance.replicas > largest:
                found.append(float((self._without(s, None) + instance.ring[s] * instance.outside).min()))
        pairs = [(s, t, moved) for s in range(instance.stages) for t, moved in instance.exchanges(s) if s < t]
        home = joined(instance.stages, [(s, t) for s, t, _ in pairs])
        for first, size in Counter(home).items():
            if size > largest:
                ends = [(s, t, moved) for s, t, moved in pairs if home[s] == first]
                found.append(min(max(self._across(s, moved), self._across(t, moved)) for s, t, moved in ends))
        return max(found)

    def _across(self, s: int, moved: float) -> float:
        """What a replica takes at least if one of its exchanges leads outside."""
        return float((self._without(s, moved) + moved * self.instance.outside).min())

    def _without(self, s: int, moved: float | None) -> Floats:
        """(K,) What a replica of a stage takes at least without one of its exchanges; None is without its ring."""
        instance = self.instance
        sizes = instance.weight[instance.ptr[s] : instance.ptr[s + 1]]
        ring, partners = float(instance.ring[s]), instance.partners[s]
        if moved is None:
            ring, partners = 0.0, 0
        else:
            sizes = np.delete(sizes, sizes.tolist().index(moved))
        found: Floats = instance.time[s] + least_moving(sizes, ring, partners, self.links)
        return found

    def thresholds(
        self,
        low: float,
        high: float,
        stopping: Callable[[], bool],
        report: Callable[[float], object] = lambda value: None,
    ) -> float:
        """The largest refuted target between a bound and the objective of a mapping; ``report`` gets better bounds."""
        while self.instance.even and high - low > _PRECISION * high and not stopping():
            target = (low + high) / 2
            if self._refuted(up_to(target), stopping):
                low = target
                report(lowered(self.instance, low))
            else:
                high = target
        return low

    def _refuted(self, limit: float, stopping: Callable[[], bool]) -> bool:
        """Whether no mapping is within a limit; False also if it is told to stop."""
        instance = self.instance
        domain: Bools = self.least <= limit
        if not self.covered(domain):
            return True
        for k, room in enumerate(instance.together):
            if room > LARGEST:
                continue
            inside = (min(float(instance.inside[k]), float(instance.outside[k])),) * (room - 1)
            # Machines of one entry may have devices of several sorts: an island is as fast as the fastest of them.
            alike = [j for j, entry in enumerate(instance.entries) if entry == instance.entries[k]]
            times = instance.time[:, alike].min(axis=1)
            for s in range(instance.stages):
                if stopping():
                    return False
                if domain[s, k]:
                    domain[s, k] = possible(instance, s, room, inside, float(instance.outside[k]), times, limit)
            if not self.covered(domain):
                return True
        return False
