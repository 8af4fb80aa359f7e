"""Simulated annealing on devices and order, judged by the list scheduler.

A state is the device of every operator and a topological order of all. Moves take a few connected operators of one
device to another, let two groups change places, or take an operator to another place in the order. The energy is the
makespan times 1 + penalty · excess, the excess being how much devices are overfilled, as shares of what they have.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partita.kernels.arrays import Floats, Ints, Longs
from partita.kernels.compiled import compiled
from partita.kernels.makespan.arrays import MakespanArrays, Room
from partita.kernels.makespan.lists import schedule_part


class Cooling(NamedTuple):
    """How to anneal: seed, moves, temperatures at the start and the end, whether schedules fill gaps, penalty."""

    seed: int
    moves: int
    start: float
    end: float
    insertion: bool
    penalty: float


@compiled
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


@compiled
def _excess(a: MakespanArrays, held: Floats) -> float:
    """How much devices are overfilled, as shares of what they have."""
    total = 0.0
    for d in range(held.shape[0]):
        # Sums that are added to and taken from carry rounding, which is no excess; the evaluator has the last word.
        if held[d] > a.limit[d] * (1.0 + 1e-10):
            total += (held[d] - a.limit[d]) / max(a.limit[d], 1e-300)
    return total


@compiled
def _carry(a: MakespanArrays, device: Ints, held: Floats, group: int, target: int) -> None:
    """Take a group to a device."""
    for k in range(a.group.ptr[group], a.group.ptr[group + 1]):
        v = a.group.members[k]
        held[device[v]] -= a.memory[v]
        held[target] += a.memory[v]
        device[v] = target


@compiled
def _neighbour(a: MakespanArrays, v: int) -> int:
    """Any operator that v waits for, or that waits for v; −1 if there is none."""
    inner = a.graph.pred_ptr[v + 1] - a.graph.pred_ptr[v]
    degree = inner + a.graph.succ_ptr[v + 1] - a.graph.succ_ptr[v]
    if degree == 0:
        return -1
    pick = np.random.randint(degree)
    return int(
        a.graph.pred[a.graph.pred_ptr[v] + pick] if pick < inner else a.graph.succ[a.graph.succ_ptr[v] + pick - inner]
    )


@compiled
def _can_run(a: MakespanArrays, group: int, d: int) -> bool:
    total = 0.0
    for k in range(a.group.ptr[group], a.group.ptr[group + 1]):
        total += a.time[a.group.members[k], d]
    return total < math.inf


@compiled
def anneal(
    a: MakespanArrays,
    device: Ints,
    order: Ints,
    first: int,
    last: int,
    cooling: Cooling,
    room: Room,
    stop: Longs,
) -> float:
    """Anneal ``device`` and ``order`` in place; at the end they are the best met, whose makespan is returned.

    Only operators in a part of the order move, and only inside it; see ``schedule_part`` for what ``room`` must hold if
    that is not the whole. The makespan is infinite if no state met keeps the memory limits. Devices must be able to run
    what is on them, and groups must be together; those that are not in the part as a whole stay.
    """
    np.random.seed(cooling.seed)
    n, devices = a.time.shape
    width = last - first
    groups = a.group.ptr.shape[0] - 1
    place = np.empty(n, dtype=np.int32)
    for k in range(n):
        place[order[k]] = k
    held = np.zeros(devices)
    for v in range(n):
        held[device[v]] += a.memory[v]
    excess = _excess(a, held)
    value = schedule_part(a, device, order, first, last, cooling.insertion, math.inf, room)
    best = value if excess == 0.0 else math.inf
    best_device, best_order = device.copy(), order.copy()
    moved = np.empty(groups, dtype=np.int32)
    # Groups that are on the way, or stay where they are.
    marked = np.zeros(groups, dtype=np.bool_)
    for k in range(n):
        if k < first or k >= last:
            marked[a.group.of[order[k]]] = True
    before = np.empty(groups, dtype=np.int32)
    cool = (cooling.end / cooling.start) ** (1.0 / max(1, cooling.moves // 64)) if cooling.start > 0 else 1.0
    temperature = cooling.start
    for move in range(cooling.moves):
        if (move & 63) == 63:
            temperature *= cool
            if stop[0] != 0:
                break
        v = order[first + np.random.randint(width)]
        kind = np.random.random()
        count = 0
        swapped = False
        source = target = int(place[v])
        old, new = device[v], device[v]
        if kind < 0.75 and marked[a.group.of[v]]:
            kind = 1.0
        if devices > 1 and kind < 0.65:
            # A few connected groups of one device, most often one.
            new = np.random.randint(devices)
            if kind < 0.25:
                # Where a neighbour is.
                w = _neighbour(a, v)
                new = new if w < 0 else device[w]
            if new == old:
                continue
            size = 1
            while size < groups and np.random.random() < 0.6:
                size += 1 + size // 4
            moved[0] = a.group.of[v]
            marked[a.group.of[v]] = True
            count = 1
            for _ in range(2 * size):
                if count >= size:
                    break
                g = moved[np.random.randint(count)]
                w = a.group.members[a.group.ptr[g] + np.random.randint(a.group.ptr[g + 1] - a.group.ptr[g])]
                x = _neighbour(a, w)
                if x >= 0 and device[x] == old and not marked[a.group.of[x]]:
                    marked[a.group.of[x]] = True
                    moved[count] = a.group.of[x]
                    count += 1
            for k in range(count):
                marked[moved[k]] = False
        elif devices > 1 and kind < 0.75:
            # Two groups change places.
            w = order[first + np.random.randint(width)]
            new = device[w]
            if new == old or marked[a.group.of[w]] or not _can_run(a, a.group.of[w], old):
                continue
            moved[0], moved[1] = a.group.of[v], a.group.of[w]
            count = 1
            swapped = True
        if count > 0:
            fits = True
            for k in range(count):
                fits = fits and _can_run(a, moved[k], new)
            if not fits:
                continue
            for k in range(count):
                before[k] = old
                _carry(a, device, held, moved[k], new)
            if swapped:
                before[1] = new
                _carry(a, device, held, moved[1], old)
                count = 2
        if count == 0 or kind > 0.6:
            low, high = first, last - 1
            for e in range(a.graph.pred_ptr[v], a.graph.pred_ptr[v + 1]):
                low = max(low, place[a.graph.pred[e]] + 1)
            for e in range(a.graph.succ_ptr[v], a.graph.succ_ptr[v + 1]):
                high = min(high, place[a.graph.succ[e]] - 1)
            if high > low:
                target = low + np.random.randint(high - low + 1)
                if target != source:
                    _shift(order, place, source, target)
            if count == 0 and target == source:
                continue
        now = _excess(a, held) if count > 0 else excess
        weight = 1.0 + cooling.penalty * now
        most = value * (1.0 + cooling.penalty * excess) - temperature * math.log(1.0 - np.random.random())
        # A little above, so that equal ones are taken.
        found = schedule_part(a, device, order, first, last, cooling.insertion, most / weight * (1.0 + 1e-12), room)
        if found < math.inf:
            value, excess = found, now
            if excess == 0.0 and value < best:
                best = value
                best_device[:] = device
                best_order[:] = order
            continue
        if target != source:
            _shift(order, place, target, source)
        for k in range(count):
            _carry(a, device, held, moved[k], before[k])
    if best < math.inf:
        device[:] = best_device
        order[:] = best_order
    return best
