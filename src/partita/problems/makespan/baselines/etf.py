"""m-ETF: of all ready operators and devices with room the pair that can start first."""

from __future__ import annotations

from partita.problems.makespan.baselines.base import NO_ROOM, Baseline
from partita.problems.makespan.greedy import Growing
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.local_search import upward_ranks


class MemoryEtf(Baseline):
    """Source: Jeon et al., "Baechi: Fast Device Placement of Machine Learning Graphs" (2020), §3.1.

    Earliest task first with memory: a device without room for an operator is left out for it. Of pairs that start at
    the same time the one whose operator has the longest chain behind it goes first.
    """

    name = "m-ETF"
    summary = "the operator and device that can start first, as far as memory goes; ignores congestion"

    def grow(self, instance: MakespanInstance) -> Growing | str:
        ranks = upward_ranks(instance)
        growing = Growing(instance, insertion=False)
        while not growing.done:
            pairs = [(v, d) for v in growing.ready() for d in growing.allowed(v)]
            if not pairs:
                return NO_ROOM
            growing.place(*min(pairs, key=lambda pair: (growing.start(*pair), -ranks[pair[0]], pair)))
        return growing
