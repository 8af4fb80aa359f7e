"""HEFT: the largest upward rank first, on the device on which it ends first."""

from __future__ import annotations

from partita.problems.makespan.greedy import Growing, earliest_finish
from partita.problems.makespan.heuristics.base import NO_ROOM, Heuristic
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.priorities import upward_ranks


class Heft(Heuristic):
    """Source: Topcuoglu, Hariri and Wu (2002), §4.1: upward ranks by mean times, insertion into gaps."""

    name = "HEFT"
    summary = "largest upward rank first, each where it ends first; ignores memory and congestion"

    def grow(self, instance: MakespanInstance) -> Growing | str:
        growing = Growing(instance, memory=False)
        return growing if earliest_finish(growing, upward_ranks(instance)) else NO_ROOM
