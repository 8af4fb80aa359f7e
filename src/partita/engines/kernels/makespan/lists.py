"""The list scheduler: from the device of every operator and an order of all to a schedule.

Operators are taken in the order, which must be topological. Before each one its incoming flows are sent, those first
whose producer ends first. Each takes the earliest gap (or, without insertion, the time after all that is there) in what
it excludes others from: an operator in its device, a flow in its sender's outgoing and its receiver's incoming side.
"""

from __future__ import annotations

import math

from partita.engines.kernels.arrays import Floats, Ints
from partita.engines.kernels.compiled import allocating_nothing, inlined
from partita.engines.kernels.makespan.arrays import MakespanArrays, Room


@inlined
def _free_from(room: Room, row: int, ready: float, length: float, insertion: bool) -> float:
    """The earliest time from ``ready`` on at which a row has a gap so long."""
    count = room.busy[row]
    if count == 0 or room.busy_end[row, count - 1] <= ready:
        return ready
    if not insertion:
        return float(room.busy_end[row, count - 1])
    # The first span that ends later.
    k, last = 0, count - 1
    while k < last:
        middle = (k + last) // 2
        if room.busy_end[row, middle] > ready:
            last = middle
        else:
            k = middle + 1
    at = ready
    while k < count and room.busy_start[row, k] < at + length:
        if at < room.busy_end[row, k]:
            at = room.busy_end[row, k]
        k += 1
    return at


@inlined
def add_span(starts: Floats, ends: Floats, counts: Ints, row: int, start: float, end: float) -> None:
    """Add a span to a row of (rows, k) starts and ends, in order."""
    k = counts[row]
    while k > 0 and (starts[row, k - 1] > start or ends[row, k - 1] > end):
        starts[row, k] = starts[row, k - 1]
        ends[row, k] = ends[row, k - 1]
        k -= 1
    starts[row, k] = start
    ends[row, k] = end
    counts[row] += 1


@allocating_nothing
def schedule_part(
    a: MakespanArrays, device: Ints, order: Ints, first: int, last: int, insertion: bool, most: float, room: Room
) -> float:
    """Make the schedule of a part of the order; its times are in ``room``. Infinite if it cannot end before ``most``.

    The end of the whole is that of the part, or of what is to follow it by ``room.lag`` and ``room.row_lag``.
    ``device`` (n,) is where every operator is to run, and can; ``order`` (n,) is topological. Times of what comes
    before the part are in ``room``, and the spans they leave in ``room.base_…``; ``start``, ``end``, ``flow_start`` and
    ``flow_end`` there are the answer. ``insertion`` says whether gaps are filled.
    """
    devices = a.time.shape[1]
    for row in range(3 * devices):
        count = room.base[row]
        room.busy[row] = count
        for k in range(count):
            room.busy_start[row, k] = room.base_start[row, k]
            room.busy_end[row, k] = room.base_end[row, k]
    finish = 0.0
    for place in range(first, last):
        v = order[place]
        d = device[v]
        # Incoming edges by the end of their producers; equal ones as they are listed.
        count = 0
        for e in range(a.graph.pred_ptr[v], a.graph.pred_ptr[v + 1]):
            k = count
            reached = room.end[a.graph.pred[e]]
            while k > 0 and room.end[a.graph.pred[room.slots[k - 1]]] > reached:
                room.slots[k] = room.slots[k - 1]
                k -= 1
            room.slots[k] = e
            count += 1
        ready = 0.0
        for k in range(count):
            e = room.slots[k]
            u, f = a.graph.pred[e], a.in_flow[e]
            arrived = room.end[u]
            if f >= 0:
                c = device[u]
                begun = arrived
                if c != d:
                    length = a.cost[f, c, d]
                    while True:
                        at = begun
                        if a.serial[1]:
                            at = _free_from(room, devices + c, at, length, insertion)
                        if a.serial[2]:
                            at = _free_from(room, 2 * devices + d, at, length, insertion)
                        if at == begun:
                            break
                        begun = at
                    arrived = begun + length
                    if a.serial[1]:
                        add_span(room.busy_start, room.busy_end, room.busy, devices + c, begun, arrived)
                    if a.serial[2]:
                        add_span(room.busy_start, room.busy_end, room.busy, 2 * devices + d, begun, arrived)
                room.flow_start[f] = begun
                room.flow_end[f] = arrived
            ready = max(ready, arrived)
        length = a.time[v, d]
        if a.serial[0]:
            ready = _free_from(room, d, ready, length, insertion)
            add_span(room.busy_start, room.busy_end, room.busy, d, ready, ready + length)
        room.start[v] = ready
        room.end[v] = ready + length
        finish = max(finish, ready + length + room.lag[v, d])
        if ready + length + max(a.tail[v, d], room.lag[v, d]) >= most:
            return math.inf
    for row in range(3 * devices):
        if room.busy[row] > 0:
            finish = max(finish, room.busy_end[row, room.busy[row] - 1] + room.row_lag[row])
    return math.inf if finish >= most else finish


@allocating_nothing
def schedule(a: MakespanArrays, device: Ints, order: Ints, insertion: bool, most: float, room: Room) -> float:
    """Make the schedule of all operators; see ``schedule_part``."""
    room.base[:] = 0
    return float(schedule_part(a, device, order, 0, order.shape[0], insertion, most, room))
