"""An order cut into pieces, one for each device: the sample passes from one to the next, as in pipelines."""

from __future__ import annotations

from partita.problems.makespan.contiguous import contiguous_split
from partita.problems.makespan.greedy import Growing
from partita.problems.makespan.heuristics.base import NO_ROOM, Heuristic
from partita.problems.makespan.instance import MakespanInstance


class Contiguous(Heuristic):
    """See ``contiguous_split`` for how the cuts are chosen."""

    name = "contiguous pieces"
    summary = "a topological order cut where pieces and transfers take least, memory kept; nothing runs side by side"

    def grow(self, instance: MakespanInstance) -> Growing | str:
        found = contiguous_split(instance)
        if found is None:
            return NO_ROOM
        growing = Growing(instance, memory=False)
        for v in found.order:
            growing.place(v, [found.device[v]])
        return growing
