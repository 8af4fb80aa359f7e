"""m-TOPO: a topological order cut into pieces of equal memory."""

from __future__ import annotations

import math

from partita.ground.rounding import up_to
from partita.problems.makespan.greedy import Growing
from partita.problems.makespan.heuristics.base import NO_ROOM, Heuristic
from partita.problems.makespan.instance import MakespanInstance


class MemoryTopo(Heuristic):
    """Source: Baechi (2020), §3.1.

    Each device gets operators in topological order up to an even share of the memory, plus the largest operator's; one
    that the device at hand cannot take goes to the next.
    """

    name = "m-TOPO"
    summary = "a topological order cut into pieces of equal memory; ignores times and transfers"

    def grow(self, instance: MakespanInstance) -> Growing | str:
        a = instance.arrays
        share = float(a.memory.sum()) / instance.devices + float(a.memory.max())
        share = share if share > 0 else math.inf
        growing, present = Growing(instance), 0
        for v in instance.order:
            allowed = growing.allowed(v)
            size = growing.size[int(a.group.of[v])]
            even = [d for d in allowed if d >= present and growing.held[d] + size <= up_to(share)]
            if not allowed:
                return NO_ROOM
            chosen = even[0] if even else allowed[-1]
            present = max(present, chosen)
            growing.place(v, [chosen])
        return growing
