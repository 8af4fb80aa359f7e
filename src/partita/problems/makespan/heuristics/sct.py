"""m-SCT: earliest task first, but a device waits for the favourite child of what it has just run."""

from __future__ import annotations

from partita.problems.makespan.greedy import Growing, earliest_start
from partita.problems.makespan.heuristics.base import NO_ROOM, Heuristic
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.priorities import mean_transfers, upward_ranks


class MemorySct(Heuristic):
    """Source: Baechi (2020), §3.1, after Hanen and Munier's small-communication-time schedules.

    Simplified: the paper rounds a linear relaxation to find each operator's *favourite child*, the successor that had
    best run on the same device without a transfer. Here flows are taken by falling mean transfer time, and one makes
    its reader the favourite child of its producer if neither has a partner yet: the same matching, found greedily. As
    there, a favourite child goes to its parent's device if that has room, everything else where it can start first.
    """

    name = "m-SCT"
    summary = "m-ETF, but the costliest transfers stay inside; favourites by a greedy matching, ignores congestion"

    def grow(self, instance: MakespanInstance) -> Growing | str:
        moved, ranks = mean_transfers(instance), upward_ranks(instance)
        parent: dict[int, int] = {}
        taken: set[int] = set()
        flows = sorted((edge for edge in instance.edges if edge[2] >= 0), key=lambda edge: -moved[edge[2]])
        for u, v, _ in flows:
            if u not in taken and v not in parent:
                taken.add(u)
                parent[v] = u
        growing = Growing(instance, insertion=False)

        def preferred(v: int) -> list[int]:
            return [growing.device[parent[v]]] if v in parent else []

        return growing if earliest_start(growing, ranks, preferred) else NO_ROOM
