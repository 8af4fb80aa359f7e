"""The first schedules of large problems: annealing on groups of operators, since moves of single ones are too many."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.graph_arrays import partition_of
from partita.engines.kernels.makespan.anneal import anneal
from partita.engines.kernels.makespan.arrays import MakespanArrays
from partita.engines.kernels.random import generator
from partita.engines.search.incumbent import Incumbent
from partita.problems.makespan.coarse import Groups, coarse, packed
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.local_search import offer_state
from partita.problems.makespan.plan import Schedule

#: Groups, and moves for each of them: rounds from coarse to fine, as far as time allows.
_ROUNDS = ((32, 60), (128, 30))
#: Temperatures at the start and at the end, as shares of the makespan.
_START, _END = 0.02, 0.0002
#: What an overfull device makes a schedule longer by, relative to its excess.
_PENALTY = 1.0


def coarse_search(instance: MakespanInstance, best: Incumbent[Schedule], *, seed: int) -> None:
    """Anneal devices of groups, and the order within limits, and offer what is found; ends when told to stop.

    Every round begins with the groups packed into memory, each where it takes least time.
    """
    room = instance.room()
    for number, (most, each) in enumerate(_ROUNDS):
        if best.done:
            return
        groups = coarse(instance, most)
        first = packed(groups, instance.arrays.limit)
        if first is None:
            continue
        device, mine = first[groups.group].astype(np.int32), instance.by_rank.copy()
        offer_state(instance, best, (device, mine), insertion=True)
        size = best.value if np.isfinite(best.value) else float(groups.time[np.isfinite(groups.time)].sum())
        cooling, draws = Cooling(_START * size, _END * size, each * groups.count), generator(seed * 1_000_003 + number)
        arrays = _grouped(instance.arrays, groups)
        anneal(arrays, device, mine, 0, instance.count, True, _PENALTY, room, cooling, draws, best.stop)
        offer_state(instance, best, (device, mine), insertion=True)


def _grouped(arrays: MakespanArrays, groups: Groups) -> MakespanArrays:
    """The problem with operators that go together by their groups."""
    return arrays._replace(group=partition_of(groups.group, groups.count))
