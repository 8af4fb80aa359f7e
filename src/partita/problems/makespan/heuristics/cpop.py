"""CPOP: the critical path on one device, everything else where it ends first."""

from __future__ import annotations

import math

from partita.problems.makespan.greedy import Growing, earliest_finish
from partita.problems.makespan.heuristics.base import NO_ROOM, Heuristic
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.priorities import mean_times, mean_transfers, upward_ranks


class Cpop(Heuristic):
    """Source: Topcuoglu, Hariri and Wu (2002), §4.2.

    Priority is the length of the longest chain through an operator, by mean times; a chain of the largest priority runs
    on the device on which it takes least.
    """

    name = "CPOP"
    summary = "the critical path on one device, others where they end first; ignores memory and congestion"

    def grow(self, instance: MakespanInstance) -> Growing | str:
        means, moved, up = mean_times(instance).tolist(), mean_transfers(instance), upward_ranks(instance)
        down = [0.0] * instance.count
        for v in instance.order:
            for u, f in instance.before[v]:
                down[v] = max(down[v], down[u] + means[u] + (moved[f] if f >= 0 else 0.0))
        priority = [a + b for a, b in zip(up, down, strict=True)]
        first = max((v for v in instance.order if not instance.before[v]), key=lambda v: priority[v])
        path = [first]
        while instance.after[path[-1]]:
            path.append(max((w for w, _ in instance.after[path[-1]]), key=lambda w: priority[w]))
        sums = instance.arrays.time[path].sum(axis=0)
        critical = set(path) if math.isfinite(sums.min()) else set()
        device = int(sums.argmin())
        growing = Growing(instance, memory=False)

        def narrowed(v: int, allowed: list[int]) -> list[int]:
            return [device] if v in critical and device in allowed else allowed

        return growing if earliest_finish(growing, priority, narrowed) else NO_ROOM
