"""Schedules by annealing devices and order (``partita.kernels.makespan.anneal``), in rounds from the best."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from partita.kernels.makespan.arrays import Floats, Ints
from partita.problems.makespan.contiguous import contiguous_split
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.greedy import Growing, earliest_finish
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.plan import Schedule
from partita.problems.makespan.schedules import devices_of, list_schedule, order_of
from partita.run.incumbent import Incumbent

#: Temperatures at the start of a round, as shares of the makespan, in turn; a round cools to this share of that.
_START, _COOLED = (0.02, 0.005, 0.05), 0.02
#: Penalties of overfull devices, in turn.
_PENALTIES = (2.0, 10.0, 0.5)
#: Moves of a round for each operator, the fewest, and how they grow after a round without success.
_MOVES, _FEWEST, _GROWTH, _MOST = 150, 1500, 1.1, 16.0

State = tuple[Ints, Ints]


def mean_times(instance: MakespanInstance) -> Floats:
    """The mean time of every operator over the devices on which it can run."""
    time = instance.arrays.time
    able = np.isfinite(time)
    found: Floats = np.where(able, time, 0.0).sum(axis=1) / able.sum(axis=1)
    return found


def upward_ranks(instance: MakespanInstance) -> list[float]:
    """HEFT's priority: mean time of an operator and the longest chain after it, transfers by their mean.

    Source: Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
    computing" (2002), §4.1; the mean of a transfer is over pairs of different devices.
    """
    means, moved = mean_times(instance).tolist(), mean_transfers(instance)
    rank = [0.0] * instance.count
    for v in reversed(instance.order):
        after = (rank[w] + (moved[f] if f >= 0 else 0.0) for w, f in instance.after[v])
        rank[v] = means[v] + max(after, default=0.0)
    return rank


def mean_transfers(instance: MakespanInstance) -> list[float]:
    """The mean time of every flow over pairs of different devices."""
    devices = instance.devices
    pairs = devices * (devices - 1)
    cost: Floats = instance.arrays.cost
    return (cost.sum(axis=(1, 2)) / pairs).tolist() if pairs else [0.0] * len(cost)


def first_states(instance: MakespanInstance) -> list[State]:
    """Where to start: earliest finish times with memory and without, pieces of an order, each device alone.

    Those that can run.
    """
    ranks = upward_ranks(instance)
    found: list[State] = []
    for memory in (True, False):
        growing = Growing(instance, memory=memory)
        if earliest_finish(growing, ranks):
            found.append((np.array(growing.device, dtype=np.int32), np.array(growing.order, dtype=np.int32)))
    cut = contiguous_split(instance)
    if cut is not None:
        found.append((np.array(cut.device, dtype=np.int32), np.array(cut.order, dtype=np.int32)))
    order = found[0][1] if found else np.array(instance.order, dtype=np.int32)
    for d in range(instance.devices):
        if np.isfinite(instance.arrays.time[:, d]).all():
            found.append((np.full(instance.count, d, dtype=np.int32), order))
    return found


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
    for device, order in starts:
        for insertion in (True, False):
            if best.stop[0] == 0:
                made = list_schedule(instance, device.tolist(), order.tolist(), insertion=insertion)
                offer(instance, best, made, "list scheduling")
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
        found = anneal(instance.arrays, *state, cooling, room, best.stop)
        better = False
        if found < value:
            made = list_schedule(instance, state[0].tolist(), state[1].tolist(), insertion=insertion)
            better = offer(instance, best, made, "annealing")
        moves = moves if better else min(longest, moves * _GROWTH)
    best.counters["rounds"] = best.counters.get("rounds", 0) + rounds
