"""Horizons refuted case by case: on each device that an operator may be on, then another one, as far as that goes.

Where moving what operators hand over takes long, all that is before and after one of them soon has to be on its
device, one after the other.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from partita.engines.kernels.arrays import Bools, Longs
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import up_to
from partita.problems.makespan.bounds.energetic import Narrowed, destructive_bound, narrowed
from partita.problems.makespan.bounds.multipliers import STARTS, multiplier_bound
from partita.problems.makespan.bounds.simple import InstanceBound, simple_bound
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.symmetry import interchangeable

#: Cases in one another, and of one horizon altogether, at most.
_DEEP, _MOST = 24, 400
#: Chains that are shorter than the longest by less are as long.
_TIED = 0.05
#: Share of a horizon for which a device surely works, from which on prices are tried.
_FULL = 0.7


class Cases(InstanceBound):
    """See ``_Cases.refuted`` for why it holds."""

    name = "cases"
    summary = "horizons refuted for every device of an operator: what must be beside it then, one after the other"
    argument = (
        "within a smaller horizon, wherever one operator is, what cannot be elsewhere takes longer there than there is"
    )

    def value(self, instance: MakespanInstance, monitor: Monitor) -> float:
        return cases_bound(instance, simple_bound(instance), monitor)


def cases_bound(instance: MakespanInstance, least: float, monitor: Monitor) -> float:
    """A bound of at least ``least``, which is one."""
    classes = np.arange(instance.devices)
    for row in interchangeable(instance):
        classes[row] = row[0]

    def refutes(instance: MakespanInstance, horizon: float, monitor: Monitor, stop: Longs) -> bool:
        return _Cases(instance, horizon, classes, monitor, stop).refuted(instance.able, [])

    return destructive_bound(instance, least, monitor, refutes)


class _Cases:
    """Cases of one horizon; devices of a class (D,) can change places."""

    def __init__(
        self, instance: MakespanInstance, horizon: float, classes: Longs, monitor: Monitor, stop: Longs
    ) -> None:
        self.instance, self.horizon, self.classes, self.left = instance, horizon, classes, _MOST
        self.narrow = partial(narrowed, instance, horizon, monitor=monitor, stop=stop)
        self.monitor = monitor

    def refuted(self, able: Bools, taken: list[int]) -> bool:
        """Whether no schedule ends by the horizon with operators on such devices (n, D), wherever one of them is.

        It is on some device. Devices that nothing is ``taken`` to be on yet, and that can change places, are one case.
        """
        self.left -= 1
        found = self.narrow(able=able)
        if found is None:
            return True
        if self._full(found) and self._least(found) > up_to(self.horizon):
            return True
        anchor = self._anchor(found)
        if anchor < 0 or len(taken) == _DEEP:
            return False
        new = set[int]()
        for d in np.flatnonzero(found.able[anchor]).tolist():
            if d not in taken and self.classes[d] in new:
                continue
            if d not in taken:
                new.add(int(self.classes[d]))
            if self.left <= 0 or self.monitor.stopping:
                return False
            case = found.able.copy()
            case[anchor] = False
            case[anchor, d] = True
            if not self.refuted(case, [*taken, d]):
                return False
        return True

    def _least(self, found: Narrowed) -> float:
        """What prices prove of all that is left; one start says as much as several here."""
        given, enough = (self.instance, self.monitor), up_to(self.horizon)
        return multiplier_bound(*given, able=found.able, enough=enough, starts=STARTS[:1])

    def _full(self, found: Narrowed) -> bool:
        """Whether some device surely works for much of the time."""
        alone = found.able & (found.able.sum(axis=1) == 1)[:, None]
        work = np.where(alone, self.instance.arrays.time, 0.0).sum(axis=0)
        return bool(work.max() >= _FULL * self.horizon)

    def _anchor(self, found: Narrowed) -> int:
        """Of operators on several devices yet, in a longest chain, the one farthest from those on one; −1 for none.

        The first of all to begin with.
        """
        head = np.where(found.able, found.head, math.inf).min(axis=1)
        through = np.where(found.able, found.head + found.tail, math.inf).min(axis=1)
        several, longest = found.able.sum(axis=1) > 1, through >= through.max() * (1.0 - _TIED)
        row, known = np.flatnonzero(several & longest), head[longest & ~several]
        if not len(row):
            return -1
        if not len(known):
            return int(row[head[row].argmin()])
        return int(row[np.abs(head[row][:, None] - known).min(axis=1).argmax()])
