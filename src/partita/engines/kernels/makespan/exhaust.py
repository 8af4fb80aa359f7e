"""Every placement and every order of a small makespan problem, as far as a better schedule may be among them.

Devices are chosen class by class. For each placement tasks (operators, and flows that are moved) are put in one after
the other, by their starts, each as early as what it waits for and what it excludes allow. A best schedule with the
least sum of starts is met so: taken by their starts, its tasks start where they are put, since each could start there.
The same schedule says which task is next: none that begins when another could have ended already (Giffler and Thompson,
1960), and at once a task that excludes nothing more. docs/makespan.md has the proof.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints, Longs
from partita.engines.kernels.compiled import called, compiled
from partita.engines.kernels.makespan.arrays import MakespanArrays
from partita.engines.kernels.rows import members_of
from partita.ground.rounding import SUMMED

#: Sums that are made in another order than those of a schedule may be larger by less than this.
_LESS = 1.0 - SUMMED


@compiled
def exhaust(
    a: MakespanArrays,
    able: Bools,
    head: Floats,
    order: Longs,
    fits: Floats,
    most: float,
    steps: int,
    stop: Longs,
    device: Ints,
    start: Floats,
    flow_start: Floats,
) -> tuple[float, bool]:
    """The least makespan below ``most``, ``most`` if there is none, and whether that is certain.

    ``able`` (n, D) says where operators may be, ``head`` what they end after there, ``order`` is topological. ``fits``
    (D,) is what a device holds at most, rounded up: sums made as the evaluator makes them may be up to its limit. So
    many ``steps``, placements and tasks put in, are made before it gives up, and any value but 0 of ``stop`` (1,) ends
    it. ``device`` (n,), ``start`` (n,) and ``flow_start`` (F,) get the best schedule, if there is one.
    """
    n, devices = a.time.shape
    groups = a.group.ptr.shape[0] - 1
    turn = np.empty(groups, dtype=np.int32)
    seen = np.zeros(groups, dtype=np.bool_)
    count = 0
    for v in order:
        if not seen[a.group.of[v]]:
            seen[a.group.of[v]] = True
            turn[count] = a.group.of[v]
            count += 1
    size = np.zeros(groups)
    for v in range(n):
        size[a.group.of[v]] += a.memory[v]
    home = np.full(n, -1, dtype=np.int32)
    chosen = np.full(groups, -1, dtype=np.int32)
    held = np.zeros((groups + 1, devices))
    end = np.empty(n)
    left = np.empty(1, dtype=np.int64)
    left[0] = steps
    best = most
    k = 0
    while k >= 0:
        if k == groups:
            best = _orders(a, home, order, best, left, stop, device, start, flow_start)
            if left[0] < 0:
                return best, False
            k -= 1
            continue
        g = turn[k]
        chosen[k] += 1
        d = chosen[k]
        if d == devices:
            chosen[k] = -1
            for w in members_of(a.group, g):
                home[w] = -1
            k -= 1
            continue
        left[0] -= 1
        if left[0] < 0 or stop[0] != 0:
            return best, False
        allowed = held[k, d] + size[g] <= fits[d]
        for w in members_of(a.group, g):
            home[w] = d
            allowed = allowed and able[w, d]
        if allowed and _least(a, home, head, order, end) * _LESS < best:
            held[k + 1] = held[k]
            held[k + 1, d] += size[g]
            k += 1
    return best, True


@compiled
def _least(a: MakespanArrays, home: Ints, head: Floats, order: Longs, end: Floats) -> float:
    """What a schedule takes at least with the operators that are placed where they are; −1 for the others."""
    devices = a.time.shape[1]
    loads = np.zeros((3, devices))
    found = 0.0
    for v in order:
        d = home[v]
        if d < 0:
            continue
        reached = 0.0
        for e in range(a.graph.pred_ptr[v], a.graph.pred_ptr[v + 1]):
            u, f = a.graph.pred[e], a.in_flow[e]
            if home[u] >= 0:
                moved = a.cost[f, home[u], d] if f >= 0 else 0.0
                reached = max(reached, end[u] + moved)
                loads[1, home[u]] += moved
                loads[2, d] += moved
        end[v] = max(head[v, d], reached + a.time[v, d])
        loads[0, d] += a.time[v, d]
        found = max(found, end[v] + a.tail[v, d])
    for row in range(3):
        if a.serial[row]:
            found = max(found, loads[row].max())
    return found


class _Tasks(NamedTuple):
    """Operators, then flows; those that are not moved are done from the start."""

    #: How long each takes, the longest chain from its start on, what it excludes others from (two rows at most), and
    #: the operator that a flow waits for; −1 for none.
    length: Floats
    rest: Floats
    rows: Ints
    waits: Ints
    #: Whether each has been put in, and when it began and ends then.
    done: Bools
    begin: Floats
    end: Floats
    #: From when on each row is free, and how many tasks are still to come there.
    free: Floats
    others: Ints
    #: Scratch of ``_next``: the work to come on each row, when each task may begin, and whether it is next.
    load: Floats
    at: Floats
    ready: Bools


@called
def _tasks_of(a: MakespanArrays, home: Ints, order: Longs) -> _Tasks:
    """The tasks of a placement, none of them put in."""
    n, devices = a.time.shape
    total = n + a.cost.shape[0]
    length, rest, begin, end, at = np.zeros(total), np.zeros(total), np.zeros(total), np.zeros(total), np.zeros(total)
    rows, waits = np.full((total, 2), -1, dtype=np.int32), np.full(total, -1, dtype=np.int32)
    done, ready = np.ones(total, dtype=np.bool_), np.zeros(total, dtype=np.bool_)
    free, load, others = np.zeros(3 * devices), np.zeros(3 * devices), np.zeros(3 * devices, dtype=np.int32)
    for place in range(n - 1, -1, -1):
        v = order[place]
        d = home[v]
        done[v] = False
        length[v] = a.time[v, d]
        after = 0.0
        for e in range(a.graph.succ_ptr[v], a.graph.succ_ptr[v + 1]):
            w, f = a.graph.succ[e], a.out_flow[e]
            through = rest[w]
            if f >= 0 and home[w] != d:
                x = n + f
                done[x] = False
                waits[x] = v
                length[x] = a.cost[f, d, home[w]]
                through += length[x]
                rest[x] = through
                if a.serial[1]:
                    rows[x, 0] = devices + d
                if a.serial[2]:
                    rows[x, 1] = 2 * devices + home[w]
            after = max(after, through)
        rest[v] = length[v] + after
        if a.serial[0]:
            rows[v, 0] = d
    for row in rows.ravel():
        if row >= 0:
            others[row] += 1
    return _Tasks(length, rest, rows, waits, done, begin, end, free, others, load, at, ready)


@compiled
def _orders(
    a: MakespanArrays,
    home: Ints,
    order: Longs,
    most: float,
    left: Longs,
    stop: Longs,
    device: Ints,
    start: Floats,
    flow_start: Floats,
) -> float:
    """The least makespan of a placement below ``most``, else ``most``; ``left`` is below 0 if it gave up."""
    n, devices = a.time.shape
    held = np.zeros(devices)
    for v in range(n):
        held[home[v]] += a.memory[v]
    for d in range(devices):
        if held[d] > a.limit[d]:
            return most
    k = _tasks_of(a, home, order)
    tasks = n + (k.waits >= 0).sum()
    candidates = np.empty((tasks + 1, tasks), dtype=np.int32)
    begins = np.empty((tasks + 1, tasks))
    counts, places = np.zeros(tasks + 1, dtype=np.int32), np.zeros(tasks + 1, dtype=np.int32)
    put = np.empty(tasks + 1, dtype=np.int32)
    lasts = np.zeros(tasks + 1)
    before = np.zeros((tasks + 1, 2))
    best, depth, fresh = most, 0, True
    while depth >= 0:
        if fresh:
            left[0] -= 1
            if left[0] < 0 or stop[0] != 0:
                left[0] = -1
                return best
            places[depth] = counts[depth] = 0
            if depth == tasks:
                finish = 0.0
                for v in range(n):
                    finish = max(finish, k.end[v])
                if finish < best:
                    best = finish
                    device[:] = home
                    # Not ends less lengths: rounding could change who is first.
                    start[:] = k.begin[:n]
                    flow_start[:] = k.begin[n:]
            else:
                counts[depth] = _next(a, home, k, lasts[depth], best, candidates[depth], begins[depth])
        if places[depth] == counts[depth]:
            depth -= 1
            fresh = False
            if depth < 0:
                break
            x = put[depth]
            k.done[x] = False
            for side in range(2):
                row = k.rows[x, side]
                if row >= 0:
                    k.free[row] = before[depth, side]
                    k.others[row] += 1
            continue
        x = candidates[depth, places[depth]]
        begun = begins[depth, places[depth]]
        places[depth] += 1
        put[depth] = x
        k.done[x] = True
        k.begin[x], k.end[x] = begun, begun + k.length[x]
        alone = True
        for side in range(2):
            row = k.rows[x, side]
            if row >= 0:
                alone = alone and k.others[row] == 1
                before[depth, side] = k.free[row]
                k.free[row] = k.end[x]
                k.others[row] -= 1
        # What excludes nothing more does not count among the starts.
        lasts[depth + 1] = lasts[depth] if alone else max(lasts[depth], begun)
        depth += 1
        fresh = True
    return best


@compiled
def _next(a: MakespanArrays, home: Ints, k: _Tasks, last: float, best: float, candidates: Ints, begins: Floats) -> int:
    """Tasks that may be put in next, where they begin, and how many; none if nothing better can come of it."""
    n = home.shape[0]
    first, ends = -1, math.inf
    k.load[:] = 0.0
    for x in range(k.length.shape[0]):
        if k.done[x]:
            continue
        begun, ready, alone = 0.0, True, True
        if x >= n:
            ready = k.done[k.waits[x]]
            begun = k.end[k.waits[x]] if ready else 0.0
        else:
            for e in range(a.graph.pred_ptr[x], a.graph.pred_ptr[x + 1]):
                u, f = a.graph.pred[e], a.in_flow[e]
                y = n + f if f >= 0 and home[u] != home[x] else u
                if k.done[y]:
                    begun = max(begun, k.end[y])
                else:
                    ready = False
        for side in range(2):
            row = k.rows[x, side]
            if row >= 0:
                begun = max(begun, k.free[row])
                alone = alone and k.others[row] == 1
                k.load[row] += k.length[x]
        k.at[x], k.ready[x] = begun, ready
        # What excludes something yet comes after all that did when it was put in.
        if (begun if alone else max(begun, last)) + k.rest[x] >= best:
            return 0
        if ready and alone:
            candidates[0], begins[0] = x, begun
            return 1
        if ready and begun + k.length[x] < ends:
            first, ends = x, begun + k.length[x]
    for row in range(k.load.shape[0]):
        opened = max(k.free[row], last) if k.others[row] > 1 else k.free[row]
        if k.others[row] > 0 and opened + k.load[row] * _LESS >= best:
            return 0
    count = 0
    for x in range(k.length.shape[0]):
        if k.done[x] or not k.ready[x] or k.at[x] < last or not (k.at[x] < ends or x == first):
            continue
        # The earliest first, of these the one with most behind it.
        place = count
        while place > 0 and (
            begins[place - 1] > k.at[x] or (begins[place - 1] == k.at[x] and k.rest[candidates[place - 1]] < k.rest[x])
        ):
            candidates[place], begins[place] = candidates[place - 1], begins[place - 1]
            place -= 1
        candidates[place], begins[place] = x, k.at[x]
        count += 1
    return count
