"""Schedules by annealing devices and order (``partita.kernels.makespan.anneal``), in rounds from the best."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from partita.kernels.arrays import Ints
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.greedy import Growing, earliest_finish
from partita.problems.makespan.heuristics import HEURISTICS
from partita.problems.makespan.heuristics.contiguous import Contiguous
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.plan import Schedule
from partita.problems.makespan.priorities import mean_times, upward_ranks
from partita.problems.makespan.schedules import devices_of, from_room, list_schedule, order_of
from partita.run.incumbent import Incumbent

#: Temperatures at the start of a round, as shares of the makespan, in turn; a round cools to this share of that.
_START, _COOLED = (0.02, 0.005, 0.05), 0.02
#: Penalties of overfull devices, in turn.
_PENALTIES = (2.0, 10.0, 0.5)
#: Moves of a round for each operator, the fewest, and how they grow after a round without success.
_MOVES, _FEWEST, _GROWTH, _MOST = 150, 1500, 1.1, 16.0

State = tuple[Ints, Ints]


def first_states(instance: MakespanInstance) -> list[State]:
    """Where to start: earliest finish times with memory and without, pieces of an order, each device alone.

    Those that can run.
    """
    ranks = upward_ranks(instance)
    found: list[State] = []
    for memory in (True, False):
        growing = Growing(instance, memory=memory)
        if earliest_finish(growing, ranks):
            found.append(_state(growing))
    pieces = Contiguous().grow(instance)
    if not isinstance(pieces, str):
        found.append(_state(pieces))
    order = found[0][1] if found else np.array(instance.order, dtype=np.int32)
    for d in range(instance.devices):
        if np.isfinite(instance.arrays.time[:, d]).all():
            found.append((np.full(instance.count, d, dtype=np.int32), order))
    return found


def _state(growing: Growing) -> State:
    return np.array(growing.device, dtype=np.int32), np.array(growing.order, dtype=np.int32)


def offer_heuristics(instance: MakespanInstance, best: Incumbent[Schedule]) -> None:
    """Offer the schedule of every heuristic: what is searched from there is never worse than any baseline of the list.

    Those of the literature come first, the last of them being the best ones: time may run out.
    """
    for heuristic in reversed(HEURISTICS):
        if best.done:
            return
        growing = heuristic.grow(instance)
        if not isinstance(growing, str):
            offer_state(instance, best, _state(growing), insertion=True)


def offer_state(instance: MakespanInstance, best: Incumbent[Schedule], state: State, *, insertion: bool) -> None:
    """Offer the list schedule of a state, if it looks better."""
    from partita.kernels.makespan.lists import schedule

    room = instance.room()
    # Sums of the kernel are the evaluator's, so what is not better here is not there.
    if schedule(instance.arrays, *state, insertion, best.value, room) < best.value:
        offer(instance, best, from_room(instance, state[0].tolist(), room), "list scheduling")


def offer(instance: MakespanInstance, best: Incumbent[Schedule], plan: Schedule, by: str) -> bool:
    """Offer a schedule if the evaluator has nothing against it; whether it was the best."""
    worth = evaluate(instance.problem, plan)
    return worth.feasible and best.offer(worth.objective, plan, by)


def search(
    instance: MakespanInstance, best: Incumbent[Schedule], *, seed: int, rounds: int, states: Sequence[State] = ()
) -> None:
    """Improve the best schedule by annealing; it ends after so many rounds, or when the incumbent is done.

    Parameters
    ----------
    instance
        The problem.
    best
        What is known; a schedule there is one of the places to start from.
    seed, rounds
        Same seed and rounds, same answer, unless it is told to stop.
    states
        Further places to start from.
    """
    from partita.kernels.makespan.anneal import Cooling, anneal

    starts = [*states, *first_states(instance)]
    for state in starts:
        for insertion in (True, False):
            if best.stop[0] == 0:
                offer_state(instance, best, state, insertion=insertion)
    room, moves = instance.room(), float(max(_FEWEST, _MOVES * instance.count))
    longest = _MOST * moves
    if not starts:
        return
    for number in range(rounds):
        if best.done:
            return
        value, plan, _ = best.snapshot()
        if plan is not None and (number >= len(starts) or number % 2):
            state = (
                np.array(devices_of(instance, plan), dtype=np.int32),
                np.array(order_of(instance, plan), dtype=np.int32),
            )
        else:
            state = starts[number % len(starts)][0].copy(), starts[number % len(starts)][1].copy()
        size = value if math.isfinite(value) else float(mean_times(instance).sum())
        start = _START[number % len(_START)] * max(size, 1e-300)
        insertion = number % 4 != 3
        penalty = _PENALTIES[number % len(_PENALTIES)]
        cooling = Cooling((seed * 1_000_003 + number) % 2**31, int(moves), start, start * _COOLED, insertion, penalty)
        found = anneal(instance.arrays, *state, 0, instance.count, cooling, room, best.stop)
        better = False
        if found < value:
            made = list_schedule(instance, state[0].tolist(), state[1].tolist(), insertion=insertion)
            better = offer(instance, best, made, "annealing")
        moves = moves if better else min(longest, moves * _GROWTH)
    best.counters["rounds"] = best.counters.get("rounds", 0) + rounds
