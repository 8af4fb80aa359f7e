"""Groups of operators that go to one device, where there are many operators: few decisions, and quick ones.

The first schedules of large problems come from annealing on such groups, since moves of single operators are too many.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.arrays import Floats, Ints
from partita.engines.kernels.graph_arrays import partition_of
from partita.engines.kernels.makespan.anneal import anneal
from partita.engines.kernels.random import generator
from partita.engines.search.incumbent import Incumbent
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.local_search import offer_state
from partita.problems.makespan.problem import MakespanPlan

#: Share of all work, or of all memory, that a group may have, in even shares; twice as much while there are too many.
_SHARE = 2.0
#: OperatorGroups, and moves for each of them: rounds from coarse to fine, as far as time allows.
_ROUNDS = ((32, 60), (128, 30))
#: Temperatures at the start and at the end, as shares of the makespan.
_START, _END = 0.02, 0.0002
#: What an overfull device makes a schedule longer by, relative to its excess.
_PENALTY = 1.0


@dataclass(frozen=True)
class OperatorGroups:
    """Groups 0, …, G − 1, in topological order of their first operators."""

    group: Ints  #: (n,) The group of every operator; classes are together.
    time: Floats  #: (G, D) Time of all operators of a group on each device, one by one; infinite where one cannot run.
    memory: Floats  #: (G,) What a group holds.

    @property
    def count(self) -> int:
        """Groups."""
        return len(self.memory)


def coarse(instance: MakespanInstance, most: int) -> OperatorGroups:
    """Merge classes until at most so many are left, or none that can run on the same devices.

    The ends of a flow are merged first, by falling mean transfer time, then neighbours in topological order. As long
    as that is enough, no group gets much more than an even share of work and memory.

    Placeto (Addanki et al., 2019) groups operators before it places them, too; these rules are our own.
    """
    a = instance.arrays
    able = [frozenset(row) for row in instance.choices]
    count = len(able)
    work, memory = np.bincount(a.group.of, instance.mean_times, count), instance.sizes.copy()
    even = float(work.sum()) / most, float(memory.sum()) / most
    home = list(range(count))

    def root(g: int) -> int:
        while home[g] != g:
            home[g] = home[home[g]]
            g = home[g]
        return g

    def merge(pairs: Iterable[tuple[int, int]], share: float) -> None:
        nonlocal count
        for u, v in pairs:
            g, h = root(u), root(v)
            if count <= most:
                return
            fits = work[g] + work[h] <= share * even[0] and memory[g] + memory[h] <= share * even[1]
            if g != h and able[g] == able[h] and fits:
                home[max(g, h)] = min(g, h)
                work[min(g, h)] += work[max(g, h)]
                memory[min(g, h)] += memory[max(g, h)]
                count -= 1

    along = [(int(a.group.of[u]), int(a.group.of[v])) for u, v in instance.costliest]
    first = list(dict.fromkeys(int(a.group.of[v]) for v in instance.order))
    share = _SHARE
    while count > most and share < 4 * most:
        merge(along, share)
        # Neighbours in the order, among those that run on the same devices.
        last: dict[frozenset[int], int] = {}
        beside = []
        for g in (g for g in first if root(g) == g):
            if able[g] in last:
                beside.append((last[able[g]], g))
            last[able[g]] = g
        merge(beside, share)
        share *= 2
    number = {g: k for k, g in enumerate(dict.fromkeys(root(g) for g in first))}
    group = np.array([number[root(int(g))] for g in a.group.of], dtype=np.int32)
    time, held = np.zeros((len(number), instance.devices)), np.zeros(len(number))
    np.add.at(time, group, a.time)
    np.add.at(held, group, a.memory)
    return OperatorGroups(group, time, held)


def packed(groups: OperatorGroups, limit: Floats) -> Ints | None:
    """(G,) A device with room for every group, the largest first.

    Each goes where it takes least, or if that leads nowhere, where least room is left; None if both lead nowhere.
    """
    for by_time in (True, False):
        held, device = np.zeros(len(limit)), np.full(groups.count, -1, dtype=np.int32)
        for g in np.argsort(-groups.memory, kind="stable").tolist():
            open_to = np.flatnonzero(np.isfinite(groups.time[g]) & (held + groups.memory[g] <= limit))
            if not len(open_to):
                break
            wish = groups.time[g] if by_time else limit - held
            device[g] = open_to[wish[open_to].argmin()]
            held[device[g]] += groups.memory[g]
        else:
            return device
    return None


def coarse_search(instance: MakespanInstance, best: Incumbent[MakespanPlan], *, seed: int) -> None:
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
        # Operators go together by their groups.
        arrays = instance.arrays._replace(group=partition_of(groups.group, groups.count))
        picks = np.arange(instance.count, dtype=np.int32)
        given = picks, 0, instance.count, True, _PENALTY, np.zeros(instance.devices)
        anneal(arrays, device, mine, *given, room, cooling, draws, best.stop)
        offer_state(instance, best, (device, mine), insertion=True)
