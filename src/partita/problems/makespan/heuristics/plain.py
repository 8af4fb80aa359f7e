"""What anyone would try first: everything on one device, or each operator where it is fastest."""

from __future__ import annotations

import numpy as np

from partita.problems.makespan.greedy import Growing
from partita.problems.makespan.heuristics.base import NO_ROOM, Heuristic
from partita.problems.makespan.instance import MakespanInstance


class SingleDevice(Heuristic):
    """Everything on the device on which it takes least, of those that can run and hold it all."""

    name = "single device"
    summary = "everything on the best single device; no transfers"

    def grow(self, instance: MakespanInstance) -> Growing | str:
        a = instance.arrays
        sums = np.where(a.memory.sum() <= a.limit, a.time.sum(axis=0), np.inf)
        if not np.isfinite(sums).any():
            return "no device can run and hold everything"
        growing = Growing(instance)
        for v in instance.order:
            growing.place(v, [int(sums.argmin())])
        return growing


class Fastest(Heuristic):
    """Each operator on the device on which it takes least, as far as memory goes; of equal ones the first."""

    name = "fastest devices"
    summary = "each operator where it is fastest, as far as memory goes; ignores transfers"

    def grow(self, instance: MakespanInstance) -> Growing | str:
        growing = Growing(instance)
        for v in instance.order:
            allowed = growing.allowed(v)
            if not allowed:
                return NO_ROOM
            growing.place(v, [min(allowed, key=lambda d: (float(instance.arrays.time[v, d]), d))])
        return growing
