"""What people do by hand, and list scheduling heuristics of the literature: baselines, and where searches start.

Each decides devices and an order without congestion; the list scheduler then makes the schedule.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import up_to
from partita.problems.makespan.contiguous import contiguous_split
from partita.problems.makespan.greedy import PartialSchedule, earliest_finish, earliest_start
from partita.problems.makespan.instance import MakespanInstance, build_instance
from partita.problems.makespan.options import MakespanOptions, Outcome, Solver
from partita.problems.makespan.problem import MakespanProblem
from partita.problems.makespan.relaxations import HALF, device_fractions, favourite_children
from partita.problems.makespan.schedules import list_schedule

#: What greedy placements say that run out of room.
NO_ROOM = "an operator fits nowhere beside what is placed"


class Heuristic(Solver):
    """A baseline; ``place`` makes the schedule with everything placed, or says why there is none."""

    name = summary = ""

    def __init__(self, name: str, summary: str, place: Callable[[MakespanInstance], PartialSchedule | str]) -> None:
        self.name, self.summary, self.place = name, summary, place

    def solve(self, problem: MakespanProblem, options: MakespanOptions, monitor: Monitor) -> Outcome:
        if monitor.stopping:
            return Outcome(None, reason="there was no time")
        instance = build_instance(problem)
        placed = self.place(instance)
        if isinstance(placed, str):
            return Outcome(None, reason=placed)
        return Outcome(list_schedule(instance, placed.device, placed.order))


def _in_order(
    instance: MakespanInstance, choose: Callable[[PartialSchedule, int, list[int]], int], *, memory: bool = True
) -> PartialSchedule | str:
    """Operator by operator on the device chosen for it among those that it may have."""
    found = PartialSchedule(instance, memory=memory)
    for v in instance.order:
        allowed = found.allowed(v)
        if not allowed:
            return NO_ROOM
        found.place(v, [choose(found, v, allowed)])
    return found


def _single_device(instance: MakespanInstance) -> PartialSchedule | str:
    """Everything on the device on which it takes least, of those that can run and hold it all."""
    a = instance.arrays
    sums = np.where(a.memory.sum() <= a.limit, a.time.sum(axis=0), np.inf)
    if not np.isfinite(sums).any():
        return "no device can run and hold everything"
    return _in_order(instance, lambda found, v, allowed: int(sums.argmin()), memory=False)


def _fastest(instance: MakespanInstance) -> PartialSchedule | str:
    """Each operator on the device on which it takes least, as far as memory goes; of equal ones the first."""
    return _in_order(instance, lambda found, v, allowed: min(allowed, key=lambda d: (instance.arrays.time[v, d], d)))


def contiguous(instance: MakespanInstance) -> PartialSchedule | str:
    """An order cut into pieces, one for each device: the sample passes from one to the next, as in pipelines."""
    device = contiguous_split(instance)
    return NO_ROOM if device is None else _in_order(instance, lambda found, v, allowed: device[v], memory=False)


def _memory_topo(instance: MakespanInstance) -> PartialSchedule | str:
    """Source: Jeon et al., "Baechi: Fast Device Placement of Machine Learning Graphs" (2020), §3.1.

    Each device gets operators in topological order up to an even share of the memory, plus the largest operator's; one
    that the device at hand cannot take goes to the next.
    """
    a = instance.arrays
    share = float(a.memory.sum()) / instance.devices + float(a.memory.max())
    share, present = share if share > 0 else math.inf, 0

    def choose(found: PartialSchedule, v: int, allowed: list[int]) -> int:
        nonlocal present
        size = found.size[int(a.group.of[v])]
        even = [d for d in allowed if d >= present and found.held[d] + size <= up_to(share)]
        chosen = even[0] if even else allowed[-1]
        present = max(present, chosen)
        return chosen

    return _in_order(instance, choose)


def _memory_etf(instance: MakespanInstance) -> PartialSchedule | str:
    """Source: Baechi (2020), §3.1: of all ready operators and devices with room the pair that can start first.

    A device without room for an operator is left out for it. Of pairs that start at the same time the one whose
    operator has the longest chain behind it goes first.
    """
    found = PartialSchedule(instance, insertion=False)
    return found if earliest_start(found) else NO_ROOM


def _memory_sct(instance: MakespanInstance) -> PartialSchedule | str:
    """Source: Baechi (2020), §3.1, after Hanen and Munier's small-communication-time schedules.

    An operator's *favourite child* is the successor that had best run on the same device without a transfer; it goes
    there if there is room, everything else where it can start first. The paper rounds a linear relaxation for the
    ``parent`` of each (``relaxations.favourite_children``). Without one, flows are taken by falling mean transfer time,
    and one makes its reader the favourite child of its producer if neither has a partner yet.
    """
    found, relaxed = PartialSchedule(instance, insertion=False), favourite_children(instance)
    parent = _greedy_favourites(instance) if relaxed is None else relaxed
    return found if earliest_start(found, lambda v: [found.device[parent[v]]] if v in parent else []) else NO_ROOM


def _greedy_favourites(instance: MakespanInstance) -> dict[int, int]:
    """Of favourite children their parents, by falling mean transfer time."""
    parent: dict[int, int] = {}
    taken: set[int] = set()
    for u, v in instance.costliest:
        if u not in taken and v not in parent:
            taken.add(u)
            parent[v] = u
    return parent


def _getf(instance: MakespanInstance) -> PartialSchedule | str:
    """Source: Su et al., "Communication-Aware Scheduling of Precedence-Constrained Tasks on Related Machines" (2020).

    Devices whose speeds (inverse mean times) are within a factor of two form a group. Of all operators and devices of
    their groups the pair that can start first goes first. Groups come from the ``fractions`` (n, D) of a linear
    relaxation (``relaxations.device_fractions``), as in the paper: of those that are as fast as the group down to which
    half of an operator is, or faster, the one that is fastest as a whole. Without them each operator, longest first,
    goes to the group where its time plus the group's work per device is least.
    """
    groups, fractions = _groups(instance), device_fractions(instance)
    chosen = _greedy_groups(instance, groups) if fractions is None else _rounded_groups(instance, groups, fractions)
    found = PartialSchedule(instance, insertion=False)
    return found if earliest_start(found, lambda v: groups[chosen[v]]) else NO_ROOM


def _groups(instance: MakespanInstance) -> list[list[int]]:
    """Devices by speed, the fastest first; those that run nothing before all."""
    usual = _usual(instance)
    least = float(usual.min())
    level = [
        0 if mean <= 0 or least <= 0 else math.floor(math.log2(mean / least)) if math.isfinite(mean) else -1
        for mean in usual.tolist()
    ]
    return [[d for d in range(len(level)) if level[d] == g] for g in sorted(set(level))]


def _usual(instance: MakespanInstance) -> Floats:
    """(D,) What operators take on average."""
    time = instance.arrays.time
    able = np.isfinite(time)
    return np.array([time[able[:, d], d].mean() if able[:, d].any() else math.inf for d in range(time.shape[1])])


def _greedy_groups(instance: MakespanInstance, groups: list[list[int]]) -> list[int]:
    """(n,) Groups by balanced work."""
    time = instance.arrays.time
    able = np.isfinite(time)
    work = [0.0] * len(groups)
    chosen = [0] * instance.count
    mean = [
        [float(time[v, ds].mean()) if able[v, ds].all() else math.inf for ds in groups] for v in range(instance.count)
    ]
    for v in sorted(range(instance.count), key=lambda v: -min(mean[v])):
        g = min(range(len(groups)), key=lambda g: (work[g] / len(groups[g]) + mean[v][g], g))
        chosen[v] = g
        work[g] += mean[v][g] if math.isfinite(mean[v][g]) else 0.0
    return chosen


def _rounded_groups(instance: MakespanInstance, groups: list[list[int]], fractions: Floats) -> list[int]:
    """(n,) Of the groups down to that with half of an operator, the fastest as a whole of those that can run it."""
    with np.errstate(divide="ignore"):
        speed = 1.0 / _usual(instance)
    whole = [float(speed[ds].sum()) for ds in groups]
    able = np.isfinite(instance.arrays.time)
    down = np.cumsum([fractions[:, ds].sum(axis=1) for ds in groups], axis=0)
    chosen = []
    for v in range(instance.count):
        last = int(np.argmax(down[:, v] >= min(HALF, float(down[-1, v])) - 1e-9))
        fit = [g for g in range(last + 1) if able[v, groups[g]].any()] or [last]
        chosen.append(max(fit, key=lambda g: (whole[g], -g)))
    return chosen


def _heft(instance: MakespanInstance) -> PartialSchedule | str:
    """Source: Topcuoglu, Hariri and Wu (2002), §4.1: upward ranks by mean times, insertion into gaps."""
    found = PartialSchedule(instance, memory=False)
    return found if earliest_finish(found, instance.upward_ranks) else NO_ROOM


def _cpop(instance: MakespanInstance) -> PartialSchedule | str:
    """Source: Topcuoglu, Hariri and Wu (2002), §4.2.

    Priority is the length of the longest chain through an operator, by mean times; a chain of the largest priority runs
    on the device on which it takes least.
    """
    means, moved = instance.mean_times.tolist(), instance.mean_transfers
    down = [0.0] * instance.count
    for v in instance.order:
        for u, f in instance.before[v]:
            down[v] = max(down[v], down[u] + means[u] + (moved[f] if f >= 0 else 0.0))
    priority = [a + b for a, b in zip(instance.upward_ranks, down, strict=True)]
    first = max((v for v in instance.order if not instance.before[v]), key=lambda v: priority[v])
    path = [first]
    while instance.after[path[-1]]:
        path.append(max((w for w, _ in instance.after[path[-1]]), key=lambda w: priority[w]))
    sums = instance.arrays.time[path].sum(axis=0)
    critical = set(path) if math.isfinite(sums.min()) else set()
    device = int(sums.argmin())

    def narrowed(v: int, allowed: list[int]) -> list[int]:
        return [device] if v in critical and device in allowed else allowed

    found = PartialSchedule(instance, memory=False)
    return found if earliest_finish(found, priority, narrowed) else NO_ROOM


#: By hand first, then the heuristics.
HEURISTICS = (
    Heuristic("single device", "everything on the best single device; no transfers", _single_device),
    Heuristic(
        "fastest devices", "each operator where it is fastest, as far as memory goes; ignores transfers", _fastest
    ),
    Heuristic(
        "contiguous pieces",
        "a topological order cut where pieces and transfers take least, memory kept; nothing runs side by side",
        contiguous,
    ),
    Heuristic(
        "m-TOPO", "a topological order cut into pieces of equal memory; ignores times and transfers", _memory_topo
    ),
    Heuristic(
        "m-ETF", "the operator and device that can start first, as far as memory goes; ignores congestion", _memory_etf
    ),
    Heuristic(
        "m-SCT",
        "m-ETF, but favourite children, from a linear relaxation, stay with their parents; ignores congestion",
        _memory_sct,
    ),
    Heuristic(
        "GETF",
        "groups of like devices, from a linear relaxation, then who can start first; ignores congestion",
        _getf,
    ),
    Heuristic("HEFT", "largest upward rank first, each where it ends first; ignores memory and congestion", _heft),
    Heuristic(
        "CPOP", "the critical path on one device, others where they end first; ignores memory and congestion", _cpop
    ),
)
