"""The list scheduler: from the device of every operator and an order of all to a schedule, and parts of one alone.

Operators are taken in the order, which must be topological. Before each one its incoming flows are sent, those first
whose producer ends first. Each takes the earliest gap (or, without insertion, the time after all that is there) in what
it excludes others from: an operator in its device, a flow in its sender's outgoing and its receiver's incoming side.

A window of the order is annealed as if it were the whole, which takes as long as it is large, not as the problem is.
What comes before keeps its times. What follows keeps devices and order: by its *lag*, the longest chain of what waits
for what, over operators, transfers and their neighbours on devices and links, the end of the whole is known without
scheduling it. That is an estimate (operators that move change which links are used); the list scheduler has the last
word.
"""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.compiled import allocating_nothing, compiled, inlined
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


@allocating_nothing
def find_lags(a: MakespanArrays, device: Ints, tasks: Longs, ends: Ints, room: Room, rest: Floats) -> None:
    """The longest chain from the start of every operator and moved flow to the end of the schedule in ``room``.

    It goes to ``rest`` (n + F,): 0 for flows that are not moved. ``tasks`` (n + F,) are operators v and flows n + f,
    later starts first, ``ends`` (F, 2) the source and target of every flow; ``room.row_lag`` is used as scratch, and 0
    again in the end.
    """
    n, devices = a.time.shape
    room.row_lag[:] = 0.0
    rest[:] = 0.0
    for place in range(tasks.shape[0]):
        task = tasks[place]
        if task < n:
            d = device[task]
            chain = room.row_lag[d] if a.serial[0] else 0.0
            for e in range(a.graph.succ_ptr[task], a.graph.succ_ptr[task + 1]):
                w, f = a.graph.succ[e], a.out_flow[e]
                chain = max(chain, rest[n + f] if f >= 0 and device[w] != d else rest[w])
            rest[task] = chain + a.time[task, d]
            if a.serial[0]:
                room.row_lag[d] = rest[task]
            continue
        f = task - n
        c, d = device[ends[f, 0]], device[ends[f, 1]]
        if c == d:
            continue
        chain = rest[ends[f, 1]]
        if a.serial[1]:
            chain = max(chain, room.row_lag[devices + c])
        if a.serial[2]:
            chain = max(chain, room.row_lag[2 * devices + d])
        rest[task] = chain + a.cost[f, c, d]
        if a.serial[1]:
            room.row_lag[devices + c] = rest[task]
        if a.serial[2]:
            room.row_lag[2 * devices + d] = rest[task]
    room.row_lag[:] = 0.0


@inlined
def _outside(room: Room, row: int, start: float, end: float, rest: float, opens: float, last: float) -> None:
    """What is not in the window: over before, there beside it, or to follow."""
    if start >= last:
        room.row_lag[row] = max(room.row_lag[row], rest)
    elif end > opens:
        add_span(room.base_start, room.base_end, room.base, row, start, end)


@compiled
def open_window(
    a: MakespanArrays, device: Ints, order: Ints, place: Ints, first: int, last: int, rest: Floats, room: Room
) -> None:
    """Fill ``room.base_…``, ``lag`` and ``row_lag`` for a part of the order of the schedule that is in ``room``.

    Tasks outside the window that start after all that the window has on their row are to follow it; others stay where
    they are, and nothing starts before the window did. ``place`` (n,) is that of every operator in the order, ``rest``
    that of ``find_lags``.
    """
    n, devices = a.time.shape
    opens, closes = math.inf, 0.0
    ends = np.full(3 * devices, -1.0)
    for k in range(first, last):
        v = order[k]
        d = device[v]
        opens = min(opens, room.start[v])
        closes = max(closes, room.start[v])
        ends[d] = max(ends[d], room.end[v])
        for e in range(a.graph.pred_ptr[v], a.graph.pred_ptr[v + 1]):
            c, f = device[a.graph.pred[e]], a.in_flow[e]
            if f >= 0 and c != d:
                opens = min(opens, room.flow_start[f])
                ends[devices + c] = max(ends[devices + c], room.flow_end[f])
                ends[2 * devices + d] = max(ends[2 * devices + d], room.flow_end[f])
    for row in range(3 * devices):
        if ends[row] < 0:
            ends[row] = closes
        room.base[row] = 0
        room.row_lag[row] = 0.0
        add_span(room.base_start, room.base_end, room.base, row, 0.0, opens)
    for k in range(n):
        if first <= k < last:
            continue
        v = order[k]
        d = device[v]
        if a.serial[0]:
            _outside(room, d, room.start[v], room.end[v], rest[v], opens, ends[d])
        for e in range(a.graph.pred_ptr[v], a.graph.pred_ptr[v + 1]):
            u, f = a.graph.pred[e], a.in_flow[e]
            c = device[u]
            if f < 0 or c == d:
                continue
            # Flows of operators in the window change with them.
            if a.serial[1] and not first <= place[u] < last:
                row = devices + c
                _outside(room, row, room.flow_start[f], room.flow_end[f], rest[n + f], opens, ends[row])
            if a.serial[2]:
                row = 2 * devices + d
                _outside(room, row, room.flow_start[f], room.flow_end[f], rest[n + f], opens, ends[row])
    for k in range(first, last):
        v = order[k]
        for d in range(devices):
            lag = 0.0
            for e in range(a.graph.succ_ptr[v], a.graph.succ_ptr[v + 1]):
                w, f = a.graph.succ[e], a.out_flow[e]
                if place[w] >= last:
                    lag = max(lag, rest[w] + (a.cost[f, d, device[w]] if f >= 0 else 0.0))
            room.lag[v, d] = lag


@allocating_nothing
def close_window(order: Ints, first: int, last: int, room: Room) -> None:
    """Forget the window: the next schedule is of the whole."""
    room.base[:] = 0
    room.row_lag[:] = 0.0
    for k in range(first, last):
        room.lag[order[k], :] = 0.0
