"""Every placement and every order of a small makespan problem, as far as a better schedule may be among them.

Devices are chosen class by class. For each placement tasks (operators, and flows that are moved) are put in one after
the other, by their starts, each as early as what it waits for and what it excludes allow. A best schedule with the
least sum of starts is met so: taken by their starts, its tasks start where they are put, since each could start there.
The same schedule says which task is next: none that begins when another could have ended already (Giffler and Thompson,
1960), and at once a task that excludes nothing more. docs/makespan.md has the proof.
"""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints, Longs
from partita.engines.kernels.compiled import compiled
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
    total = n + a.cost.shape[0]
    held = np.zeros(devices)
    for v in range(n):
        held[home[v]] += a.memory[v]
    for d in range(devices):
        if held[d] > a.limit[d]:
            return most
    # Tasks: operators, then flows that are moved. What each excludes others from (two rows at most), how long it takes,
    # and the longest chain from its start on.
    length, rest = np.zeros(total), np.zeros(total)
    rows = np.full((total, 2), -1, dtype=np.int32)
    waits = np.full(total, -1, dtype=np.int32)
    done = np.ones(total, dtype=np.bool_)
    tasks = n
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
                tasks += 1
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
    load, others = np.zeros(3 * devices), np.zeros(3 * devices, dtype=np.int32)
    for x in range(total):
        for k in range(2):
            if rows[x, k] >= 0:
                others[rows[x, k]] += 1
    free, begin, end = np.zeros(3 * devices), np.zeros(total), np.zeros(total)
    at, open_to = np.zeros(total), np.zeros(total, dtype=np.bool_)
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
                    finish = max(finish, end[v])
                if finish < best:
                    best = finish
                    device[:] = home
                    # Not ends less lengths: rounding could change who is first.
                    start[:] = begin[:n]
                    flow_start[:] = begin[n:]
            else:
                counts[depth] = _next(
                    a, home, rows, waits, length, rest, done, end, free, load, others, lasts[depth], best, at, open_to,
                    candidates[depth], begins[depth],
                )  # fmt: skip
        if places[depth] == counts[depth]:
            depth -= 1
            fresh = False
            if depth < 0:
                break
            x = put[depth]
            done[x] = False
            for k in range(2):
                row = rows[x, k]
                if row >= 0:
                    free[row] = before[depth, k]
                    others[row] += 1
            continue
        x = candidates[depth, places[depth]]
        begun = begins[depth, places[depth]]
        places[depth] += 1
        put[depth] = x
        done[x] = True
        begin[x], end[x] = begun, begun + length[x]
        alone = True
        for k in range(2):
            row = rows[x, k]
            if row >= 0:
                alone = alone and others[row] == 1
                before[depth, k] = free[row]
                free[row] = end[x]
                others[row] -= 1
        # What excludes nothing more does not count among the starts.
        lasts[depth + 1] = lasts[depth] if alone else max(lasts[depth], begun)
        depth += 1
        fresh = True
    return best


@compiled
def _next(
    a: MakespanArrays,
    home: Ints,
    rows: Ints,
    waits: Ints,
    length: Floats,
    rest: Floats,
    done: Bools,
    end: Floats,
    free: Floats,
    load: Floats,
    others: Ints,
    last: float,
    best: float,
    at: Floats,
    open_to: Bools,
    candidates: Ints,
    begins: Floats,
) -> int:
    """Tasks that may be put in next, where they begin, and how many; none if nothing better can come of it."""
    n = home.shape[0]
    first, ends = -1, math.inf
    load[:] = 0.0
    for x in range(length.shape[0]):
        if done[x]:
            continue
        begun, ready, alone = 0.0, True, True
        if x >= n:
            ready = done[waits[x]]
            begun = end[waits[x]] if ready else 0.0
        else:
            for e in range(a.graph.pred_ptr[x], a.graph.pred_ptr[x + 1]):
                u, f = a.graph.pred[e], a.in_flow[e]
                y = n + f if f >= 0 and home[u] != home[x] else u
                if done[y]:
                    begun = max(begun, end[y])
                else:
                    ready = False
        for k in range(2):
            row = rows[x, k]
            if row >= 0:
                begun = max(begun, free[row])
                alone = alone and others[row] == 1
                load[row] += length[x]
        at[x], open_to[x] = begun, ready
        # What excludes something yet comes after all that did when it was put in.
        if (begun if alone else max(begun, last)) + rest[x] >= best:
            return 0
        if ready and alone:
            candidates[0], begins[0] = x, begun
            return 1
        if ready and begun + length[x] < ends:
            first, ends = x, begun + length[x]
    for row in range(load.shape[0]):
        opened = max(free[row], last) if others[row] > 1 else free[row]
        if others[row] > 0 and opened + load[row] * _LESS >= best:
            return 0
    count = 0
    for x in range(length.shape[0]):
        if done[x] or not open_to[x] or at[x] < last or not (at[x] < ends or x == first):
            continue
        # The earliest first, of these the one with most behind it.
        k = count
        while k > 0 and (begins[k - 1] > at[x] or (begins[k - 1] == at[x] and rest[candidates[k - 1]] < rest[x])):
            candidates[k], begins[k] = candidates[k - 1], begins[k - 1]
            k -= 1
        candidates[k], begins[k] = x, at[x]
        count += 1
    return count
