"""Simulated annealing on devices and order, judged by the list scheduler.

A state is the device of every operator and a topological order of all. Moves take a few connected operators of one
device to another, let two groups change places, or take an operator to another place in the order. The energy is the
makespan times 1 + penalty · excess, the excess being how much devices are overfilled, as shares of what they have, and
a price for all that is held.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.annealing import Cooling, Steps, accepted_rise, anneal_by, copy_into
from partita.engines.kernels.arrays import Bools, Floats, Ints, Longs, Words
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.makespan.arrays import MakespanArrays, Room
from partita.engines.kernels.makespan.lists import schedule_part
from partita.engines.kernels.random import below, share
from partita.engines.kernels.rows import members_of, predecessors, successors
from partita.ground.rounding import NOT_ZERO, SUMMED_FEW


class _ScheduleState(NamedTuple):
    """Devices and order under moves.

    ``device``, ``order``, ``picks``, ``first``, ``last``, ``room``, ``insertion``, ``penalty`` and ``price`` as in
    ``anneal``; ``place`` (n,) in the order, ``held`` (D,) bytes; ``value`` (4,) is the makespan, the excess, what the
    price of all that is held comes to, and the least of makespan and price without an excess, of ``best_device`` and
    ``best_order``. ``marked`` groups move, or stay where they are; ``way[:, :many]`` are the groups of a move, and
    where they were.
    """

    a: MakespanArrays
    device: Ints
    order: Ints
    picks: Ints
    first: int
    last: int
    room: Room
    insertion: bool
    penalty: float
    price: Floats
    place: Ints
    held: Floats
    value: Floats
    best_device: Ints
    best_order: Ints
    marked: Bools
    way: Ints


class _ScheduleMove(NamedTuple):
    """So many groups have moved, and an operator from one place of the order to another; makespan, excess, price then.

    The rise is nothing where it is accepted.
    """

    rise: float
    many: int
    source: int
    target: int
    makespan: float
    excess: float
    paid: float


@inlined
def _shift(order: Ints, place: Ints, source: int, target: int) -> None:
    """Take the operator at one place of the order to another; those between move up."""
    v = order[source]
    step = 1 if target > source else -1
    k = source
    while k != target:
        order[k] = order[k + step]
        place[order[k]] = k
        k += step
    order[target] = v
    place[v] = target


@inlined
def _excess(a: MakespanArrays, held: Floats) -> float:
    """How much devices are overfilled, as shares of what they have."""
    total = 0.0
    for d in range(held.shape[0]):
        # Sums that are added to and taken from carry rounding, which is no excess; the evaluator has the last word.
        if held[d] > a.limit[d] * (1.0 + 1e-10):
            total += (held[d] - a.limit[d]) / max(a.limit[d], NOT_ZERO)
    return total


@inlined
def _paid(price: Floats, held: Floats) -> float:
    """For all that devices hold."""
    total = 0.0
    for d in range(held.shape[0]):
        total += price[d] * held[d]
    return total


@inlined
def _carry(a: MakespanArrays, device: Ints, held: Floats, group: int, target: int) -> None:
    """Take a group to a device."""
    for v in members_of(a.group, group):
        held[device[v]] -= a.memory[v]
        held[target] += a.memory[v]
        device[v] = target


@inlined
def _neighbour(a: MakespanArrays, random: Words, v: int) -> int:
    """Any operator that v waits for, or that waits for v; −1 if there is none."""
    inner = a.graph.pred_ptr[v + 1] - a.graph.pred_ptr[v]
    degree = inner + a.graph.succ_ptr[v + 1] - a.graph.succ_ptr[v]
    if degree == 0:
        return -1
    pick = below(random, degree)
    return int(
        a.graph.pred[a.graph.pred_ptr[v] + pick] if pick < inner else a.graph.succ[a.graph.succ_ptr[v] + pick - inner]
    )


@inlined
def _can_run(a: MakespanArrays, group: int, d: int) -> bool:
    total = 0.0
    for w in members_of(a.group, group):
        total += a.time[w, d]
    return total < math.inf


@inlined
def _gather(c: _ScheduleState, random: Words, v: int) -> int:
    """List the group of an operator and connected ones of its device, most often none; how many."""
    a, way, marked = c.a, c.way, c.marked
    groups, old = way.shape[1], c.device[v]
    size = 1
    while size < groups and share(random) < 0.6:
        size += 1 + size // 4
    way[0, 0] = a.group.of[v]
    marked[a.group.of[v]] = True
    count = 1
    for _ in range(2 * size):
        if count >= size:
            break
        g = way[0, below(random, count)]
        w = a.group.members[a.group.ptr[g] + below(random, a.group.ptr[g + 1] - a.group.ptr[g])]
        x = _neighbour(a, random, w)
        if x >= 0 and c.device[x] == old and not marked[a.group.of[x]]:
            marked[a.group.of[x]] = True
            way[0, count] = a.group.of[x]
            count += 1
    for k in range(count):
        marked[way[0, k]] = False
    return count


@inlined
def _reorder(c: _ScheduleState, random: Words, v: int) -> int:
    """Take an operator anywhere between what it waits for and what waits for it; where it is then."""
    a, place = c.a, c.place
    low, high, target = c.first, c.last - 1, int(np.int64(place[v]))
    for u in predecessors(a.graph, v):
        low = max(low, place[u] + 1)
    for w in successors(a.graph, v):
        high = min(high, place[w] - 1)
    if high > low:
        target = low + below(random, high - low + 1)
        if target != place[v]:
            _shift(c.order, place, place[v], target)
    return target


@inlined
def _propose(c: _ScheduleState, random: Words, trial: int, temperature: float) -> _ScheduleMove:
    a, device, devices, width = c.a, c.device, c.held.shape[0], c.picks.shape[0]
    v = c.picks[below(random, width)]
    kind = share(random)
    source = target = int(np.int64(c.place[v]))
    old, new = device[v], device[v]
    if devices < 2 or (kind < 0.75 and c.marked[a.group.of[v]]):
        kind = 1.0
    count, swapped = 0, False
    if kind < 0.65:
        # A few connected groups of one device, most often one; some where a neighbour is.
        new = below(random, devices)
        if kind < 0.25:
            w = _neighbour(a, random, v)
            new = new if w < 0 else device[w]
        if new == old:
            return _ScheduleMove(math.inf, 0, 0, 0, 0.0, 0.0, 0.0)
        count = _gather(c, random, v)
    elif kind < 0.75:
        # Two groups change places.
        w = c.picks[below(random, width)]
        new = device[w]
        if new == old or c.marked[a.group.of[w]] or not _can_run(a, a.group.of[w], old):
            return _ScheduleMove(math.inf, 0, 0, 0, 0.0, 0.0, 0.0)
        c.way[0, 0], c.way[0, 1] = a.group.of[v], a.group.of[w]
        count, swapped = 1, True
    for k in range(count):
        if not _can_run(a, c.way[0, k], new):
            return _ScheduleMove(math.inf, 0, 0, 0, 0.0, 0.0, 0.0)
    for k in range(count):
        c.way[1, k] = old
        _carry(a, device, c.held, c.way[0, k], new)
    if swapped:
        c.way[1, 1] = new
        _carry(a, device, c.held, c.way[0, 1], old)
        count = 2
    if count == 0 or kind > 0.6:
        target = _reorder(c, random, v)
        if count == 0 and target == source:
            return _ScheduleMove(math.inf, 0, 0, 0, 0.0, 0.0, 0.0)
    excess = _excess(a, c.held) if count > 0 else c.value[1]
    paid = _paid(c.price, c.held) if count > 0 else c.value[2]
    most = c.value[0] * (1.0 + c.penalty * c.value[1]) + c.value[2] + accepted_rise(random, temperature) - paid
    # A little above, so that equal ones are taken; the schedule ends early where it would not be.
    most = most / (1.0 + c.penalty * excess) * (1.0 + SUMMED_FEW)
    found = schedule_part(a, device, c.order, c.first, c.last, c.insertion, most, c.room)
    return _ScheduleMove(0.0 if found < math.inf else math.inf, count, source, target, found, excess, paid)


@inlined
def _keep(c: _ScheduleState, move: _ScheduleMove) -> None:
    c.value[0], c.value[1], c.value[2] = move.makespan, move.excess, move.paid
    if move.excess == 0.0 and move.makespan + move.paid < c.value[3]:
        c.value[3] = move.makespan + move.paid
        copy_into(c.best_device, c.device)
        copy_into(c.best_order, c.order)


@inlined
def _undo(c: _ScheduleState, move: _ScheduleMove) -> None:
    if move.target != move.source:
        _shift(c.order, c.place, move.target, move.source)
    for k in range(move.many):
        _carry(c.a, c.device, c.held, c.way[0, k], c.way[1, k])


_STEPS = Steps(_propose, _keep, _undo)


@compiled
def anneal(
    a: MakespanArrays,
    device: Ints,
    order: Ints,
    picks: Ints,
    first: int,
    last: int,
    insertion: bool,
    penalty: float,
    price: Floats,
    room: Room,
    cooling: Cooling,
    random: Words,
    stop: Longs,
) -> float:
    """Anneal ``device`` and ``order`` in place; at the end they are the best met, whose makespan is returned.

    With a ``price`` (D,) for what devices hold, by unit, that is what is added to it.

    Only ``picks`` (m,), operators in a part of the order, move, and only inside it; see ``schedule_part`` for what
    ``room`` must hold if that is not the whole. Schedules fill gaps with ``insertion``. The makespan is infinite if no
    state met keeps the memory limits. Devices must be able to run what is on them, and groups must be together; those
    that are not picked as a whole stay.
    """
    n, devices = a.time.shape
    groups = a.group.ptr.shape[0] - 1
    place, held, marked = np.empty(n, dtype=np.int32), np.zeros(devices), np.zeros(groups, dtype=np.bool_)
    picked = np.zeros(n, dtype=np.bool_)
    for v in picks:
        picked[v] = True
    for k in range(n):
        v = order[k]
        place[v] = k
        held[device[v]] += a.memory[v]
        if not picked[v]:
            marked[a.group.of[v]] = True
    value = np.full(4, math.inf)
    value[0] = schedule_part(a, device, order, first, last, insertion, math.inf, room)
    value[1] = _excess(a, held)
    value[2] = _paid(price, held)
    if value[1] == 0.0:
        value[3] = value[0] + value[2]
    best_device, best_order = device.copy(), order.copy()
    way = np.empty((2, groups), dtype=np.int32)
    c = _ScheduleState(
        a,
        device,
        order,
        picks,
        first,
        last,
        room,
        insertion,
        penalty,
        price,
        place,
        held,
        value,
        best_device,
        best_order,
        marked,
        way,
    )
    anneal_by(c, _STEPS, cooling, random, stop)
    if value[3] < math.inf:
        device[:] = best_device
        order[:] = best_order
    return float(value[3])
