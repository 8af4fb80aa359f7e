"""m-ETF: of all ready operators and devices with room the pair that can start first."""

from __future__ import annotations

from partita.problems.makespan.greedy import Growing, earliest_start
from partita.problems.makespan.heuristics.base import NO_ROOM, Heuristic
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.priorities import upward_ranks


class MemoryEtf(Heuristic):
    """Source: Jeon et al., "Baechi: Fast Device Placement of Machine Learning Graphs" (2020), §3.1.

    Earliest task first with memory: a device without room for an operator is left out for it. Of pairs that start at
    the same time the one whose operator has the longest chain behind it goes first.
    """

    name = "m-ETF"
    summary = "the operator and device that can start first, as far as memory goes; ignores congestion"

    def grow(self, instance: MakespanInstance) -> Growing | str:
        growing = Growing(instance, insertion=False)
        return growing if earliest_start(growing, upward_ranks(instance)) else NO_ROOM
