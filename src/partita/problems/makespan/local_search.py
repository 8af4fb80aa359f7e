"""Schedules by annealing devices and order (``partita.engines.kernels.makespan.anneal``), in rounds from the best."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.makespan.anneal import anneal
from partita.engines.kernels.makespan.lists import schedule
from partita.engines.kernels.random import generator
from partita.engines.search.incumbent import Incumbent
from partita.ground.rounding import raised
from partita.problems.annealing import AnnealingSearch, Length
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.greedy import PartialSchedule, earliest_finish
from partita.problems.makespan.heuristics import HEURISTICS, contiguous
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.problem import MakespanPlan
from partita.problems.makespan.schedules import devices_of, from_room, list_schedule, order_of

#: Temperatures at the start of a round, as shares of the makespan, in turn; a round cools to this share of that.
_START, _COOLED = (0.02, 0.005, 0.05), 0.02
#: Penalties of overfull devices, in turn.
_PENALTIES = (2.0, 10.0, 0.5)
#: Moves of a round for each operator, the fewest, and how they grow after a round without success.
_MOVES, _FEWEST, _GROWTH, _MOST = 150, 1500, 1.1, 16.0

#: Most operators of which all are annealed at once where there is a schedule; more leave no time for it.
WHOLE = 600
#: Where a price is paid for memory: the temperature at the start by makespan and price, and moves for each operator.
_HOT, _PRICED = 0.05, 250

State = tuple[Ints, Ints]


def first_states(instance: MakespanInstance) -> list[State]:
    """Where to start: earliest finish times with memory and without, pieces of an order, each device alone.

    Those that can run.
    """
    found: list[State] = []
    for memory in (True, False):
        placed = PartialSchedule(instance, memory=memory)
        if earliest_finish(placed, instance.upward_ranks):
            found.append(_state(placed))
    pieces = contiguous(instance)
    if not isinstance(pieces, str):
        found.append(_state(pieces))
    order = found[0][1] if found else np.array(instance.order, dtype=np.int32)
    for d in range(instance.devices):
        if np.isfinite(instance.arrays.time[:, d]).all():
            found.append((np.full(instance.count, d, dtype=np.int32), order))
    return found


def _state(placed: PartialSchedule) -> State:
    return np.array(placed.device, dtype=np.int32), np.array(placed.order, dtype=np.int32)


def state_of(instance: MakespanInstance, plan: MakespanPlan) -> State:
    """The devices and the order of a schedule."""
    return np.array(devices_of(instance, plan), dtype=np.int32), np.array(order_of(instance, plan), dtype=np.int32)


def offer_heuristics(instance: MakespanInstance, best: Incumbent[MakespanPlan]) -> None:
    """Offer the schedule of every heuristic: what is searched from there is never worse than any baseline of the list.

    Those of the literature come first, the last of them being the best ones: time may run out.
    """
    for heuristic in reversed(HEURISTICS):
        if best.done:
            return
        placed = heuristic.place(instance)
        if not isinstance(placed, str):
            offer_state(instance, best, _state(placed), insertion=True)


def offer_state(instance: MakespanInstance, best: Incumbent[MakespanPlan], state: State, *, insertion: bool) -> None:
    """Offer the list schedule of a state, if it looks better."""
    room = instance.room()
    # Sums of the kernel are the evaluator's, so what is not better here is not there.
    if schedule(instance.arrays, *state, insertion, best.value, room) < best.value:
        offer(instance, best, from_room(instance, state[0].tolist(), room), "list scheduling")


def offer(instance: MakespanInstance, best: Incumbent[MakespanPlan], plan: MakespanPlan, by: str) -> bool:
    """Offer a schedule if the evaluator has nothing against it; whether it was the best."""
    worth = evaluate(instance.problem, plan)
    return worth.feasible and best.offer(worth.objective, plan, by)


class ScheduleSearch(AnnealingSearch):
    """Improves the best schedule; places to start from are that one, ``states`` and ``first_states``."""

    def __init__(
        self, instance: MakespanInstance, best: Incumbent[MakespanPlan], seed: int, states: Sequence[State] = ()
    ) -> None:
        first = float(max(_FEWEST, _MOVES * instance.count))
        super().__init__(best, seed, Length(first, _GROWTH, _MOST * first, in_vain=True))
        self.instance, self.room = instance, instance.room()
        self.picks = np.arange(instance.count, dtype=np.int32)
        self.starts = [*states, *first_states(instance)]
        for state in self.starts:
            for insertion in (True, False):
                if best.stop[0] == 0:
                    offer_state(instance, best, state, insertion=insertion)

    @property
    def done(self) -> bool:
        return not self.starts or self.best.done

    def round(self, number: int) -> Iterator[None]:
        instance, starts = self.instance, self.starts
        value, plan, _ = self.best.snapshot()
        if plan is not None and (number >= len(starts) or number % 2):
            device, order = state_of(instance, plan)
        else:
            device, order = (part.copy() for part in starts[number % len(starts)])
        size = value if math.isfinite(value) else float(instance.mean_times.sum())
        hot, penalty, insertion = _START[number % len(_START)], _PENALTIES[number % len(_PENALTIES)], number % 4 != 3
        cooling = Cooling(1.0, _COOLED, int(self.length)).times(hot * max(size, 1e-300))
        a, room, stop = instance.arrays, self.room, self.best.stop
        given = self.picks, 0, instance.count, insertion, penalty, np.zeros(instance.devices)
        found = anneal(a, device, order, *given, room, cooling, self.draws, stop)
        self.trials += cooling.trials
        if found < value:
            made = list_schedule(instance, device.tolist(), order.tolist(), insertion=insertion)
            offer(instance, self.best, made, "annealing")
        yield


def search(
    instance: MakespanInstance, best: Incumbent[MakespanPlan], *, seed: int, rounds: int, states: Sequence[State] = ()
) -> None:
    """Improve the best schedule by so many rounds, unless the incumbent is done before; see ``ScheduleSearch``.

    Of large problems places to start from are offered, and nothing is annealed unless nothing fits into memory so far.
    """
    made = ScheduleSearch(instance, best, seed, states)
    made.run(rounds=rounds if instance.count <= WHOLE or best.answer is None else 0)
    if made.number:
        best.counters["rounds"] = best.counters.get("rounds", 0) + made.number


def settle(
    instance: MakespanInstance,
    best: Incumbent[MakespanPlan],
    state: State,
    picks: Sequence[int],
    *,
    seed: int,
    rounds: int,
) -> State:
    """Anneal devices and places of some operators of a state in so many rounds; it stays as it is where none helps.

    What is found is offered. Same seed, same state, unless told to stop.
    """
    chosen, draws, room = np.array(picks, dtype=np.int32), generator(seed), instance.room()
    size = float(schedule(instance.arrays, *state, True, math.inf, room))
    held = np.bincount(state[0], instance.arrays.memory, instance.devices)
    now = size if bool((held <= raised(instance.arrays.limit)).all()) else math.inf
    moves = int(max(_FEWEST, _MOVES * len(chosen)))
    for number in range(rounds):
        if best.done or not len(chosen):
            break
        cooling = Cooling(1.0, _COOLED, moves).times(_START[number % len(_START)] * size)
        device, order = state[0].copy(), state[1].copy()
        given = chosen, 0, instance.count, True, _PENALTIES[number % len(_PENALTIES)], np.zeros(instance.devices)
        found = anneal(instance.arrays, device, order, *given, room, cooling, draws, best.stop)
        if found < now:
            now, state = found, (device, order)
    if now < math.inf:
        offer_state(instance, best, state, insertion=True)
    return state


def priced_state(instance: MakespanInstance, price: Floats, *, seed: int, longer: int = 1, stop: Longs) -> State:
    """Devices and order, memory without limits, that take little time and hold little at a price (D,) by unit.

    So much ``longer`` than usual. Operators of a class must be able to run where the first of them is fastest. Same
    seed, same state, unless told to stop.
    """
    a, n = instance.arrays._replace(limit=np.full(instance.devices, math.inf)), instance.count
    device: Ints = a.time[a.group.members[a.group.ptr[:-1]]].argmin(axis=1).astype(np.int32)[a.group.of]
    order, room = instance.by_rank.copy(), instance.room()
    size = float(schedule(a, device, order, True, math.inf, room))
    size += float(np.bincount(device, a.memory, instance.devices) @ price)
    cooling = Cooling(_HOT * size, _HOT * _COOLED * size, int(max(_FEWEST, _PRICED * n * longer)))
    given = np.arange(n, dtype=np.int32), 0, n, True, 0.0, price
    anneal(a, device, order, *given, room, cooling, generator(seed), stop)
    return device, order
