"""Parts of a schedule by themselves: what is there before a window of the order, and what is to follow it.

A window is annealed as if it were the whole, which takes as long as it is large, not as the problem is. What comes
before keeps its times. What follows keeps devices and order: by its *lag*, the longest chain of what waits for what,
over operators, transfers and their neighbours on devices and links, the end of the whole is known without scheduling
it. That is an estimate (operators that move change which links are used); the list scheduler has the last word.
"""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.compiled import allocating_nothing, compiled, inlined
from partita.engines.kernels.makespan.arrays import MakespanArrays, Room
from partita.engines.kernels.makespan.lists import add_span


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
