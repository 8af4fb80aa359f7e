"""Slice one order of the items into stages: the decision at a target load, exact for that order.

Source: Pipelined inference (ICML 2024), §4 (slicing a topological order), with the segment costs of nets kept as a
suffix sum: for the right end r, ``diff`` satisfies cost(l..r) = Σ_{q ≥ l} diff[q], and a net changes O(1) entries when
one of its pins becomes the right end.
"""

from __future__ import annotations

import numpy as np

from partita.kernels.compiled import compiled, inlined
from partita.kernels.throughput.arrays import Arrays, Bytes, Floats, Ints, Longs


@inlined
def enter_along(a: Arrays, e: int, v: int, r: int, last: int, step: Floats) -> None:
    """Take in v as the right end: ``step`` for what enters a segment with net e, whose pin before v is at ``last``."""
    size = a.net_entering[e]
    # Backwards readers come first, and are entered as long as the source, the last pin, is to the right. Forwards the
    # source comes first, and is entered where the segment starts between it and a reader.
    reads = a.net_source[e] != v
    if last >= 0 and (reads or a.backwards):
        step[last] -= size
    if reads:
        step[r] += size


@inlined
def hold_along(a: Arrays, v: int, r: int, own: Floats, shared: Floats, last: Ints, step: Floats) -> None:
    """Take in v as the right end: ``step`` for bytes of its own and of its covers, met before at ``last``."""
    step[r] += own[v]
    for p in range(a.item_cover_ptr[v], a.item_cover_ptr[v + 1]):
        c = a.item_covers[p]
        if last[c] >= 0:
            step[last[c]] -= shared[c]
        step[r] += shared[c]


@compiled
def slice_order(
    a: Arrays,
    order: Ints,
    target: float,
    stride: Longs,
    digit_sum: Longs,
    digits: Longs,
    fewest: Ints,
    back_from: Ints,
    back_kind: Bytes,
    stop: Longs,
) -> bool:
    """Whether the order can be cut into segments of load at most ``target``; the cuts are left in ``back_*``.

    ``fewest[i, code]`` is the fewest devices of kind 0 that hold the first i items when ``code`` (mixed radix, see
    ``stride``) counts the devices of the other kinds; fewer is never worse, also where memory depends on the number
    of stages already placed.
    """
    n, kinds, codes = order.shape[0], a.work.shape[0], digit_sum.shape[0]
    limited, recompute = a.limited, a.recompute
    m, none = a.net_ptr.shape[0] - 1, np.int32(1 << 30)
    covers = a.cover_fixed.shape[0]
    last = np.full(m, -1, np.int32)
    first = np.full(m, -1, np.int32)
    seen = np.zeros(m, np.int32)
    cover_last = np.full(covers, -1, np.int32)
    diff = np.zeros((n, kinds))
    diff_enter = np.zeros(n)
    diff_fixed = np.zeros(n)
    diff_active = np.zeros(n)
    for i in range(n + 1):
        for c in range(codes):
            fewest[i, c] = none
    fewest[0, 0] = 0
    least = 1 if recompute else a.in_flight[1]
    reached = np.zeros(n + 1, np.bool_)
    reached[0] = True
    work, comm = np.zeros(kinds), np.zeros(kinds)
    alive = np.zeros(kinds, np.bool_)
    for r in range(n):
        v = order[r]
        for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
            e = a.item_nets[p]
            size = a.net_ptr[e + 1] - a.net_ptr[e]
            seen[e] += 1
            if last[e] >= 0:
                for k in range(kinds):
                    diff[last[e], k] -= a.net_cost[k, e]
            else:
                first[e] = r
            for k in range(kinds):
                diff[r, k] += a.net_cost[k, e]
                if seen[e] == size:
                    diff[first[e], k] -= a.net_cost[k, e]
            if recompute:
                enter_along(a, e, v, r, last[e], diff_enter)
            last[e] = r
        hold_along(a, v, r, a.fixed, a.cover_fixed, cover_last, diff_fixed)
        hold_along(a, v, r, a.active, a.cover_active, cover_last, diff_active)
        for p in range(a.item_cover_ptr[v], a.item_cover_ptr[v + 1]):
            cover_last[a.item_covers[p]] = r
        for k in range(kinds):
            work[k] = 0.0
            comm[k] = 0.0
            alive[k] = a.devices[k] > 0
        fixed, active, enter, space = 0.0, 0.0, 0.0, 0.0
        for left in range(r, -1, -1):
            u = order[left]
            any_alive = False
            if limited:
                fixed += diff_fixed[left]
                active += diff_active[left]
                enter += diff_enter[left]
                space = max(space, a.workspace[u])
            for k in range(kinds):
                work[k] += a.work[k, u]
                comm[k] += diff[left, k]
                if not alive[k]:
                    continue
                if work[k] > target or (limited and fixed + least * active + space > a.memory[k]):
                    alive[k] = False
                    continue
                any_alive = True
                if not reached[left] or work[k] + comm[k] > target:
                    continue
                for c in range(codes):
                    used = fewest[left, c]
                    if used == none:
                        continue
                    if k == 0:
                        if used >= a.devices[0]:
                            continue
                    elif digits[c, k] >= a.devices[k]:
                        continue
                    if limited:
                        q = a.in_flight[used + digit_sum[c] + 1]
                        if recompute:
                            need = fixed + active + q * enter + space
                        else:
                            need = fixed + q * active + space
                        if need > a.memory[k]:
                            continue
                    after = c if k == 0 else c + stride[k]
                    value = used + 1 if k == 0 else used
                    if value < fewest[r + 1, after]:
                        fewest[r + 1, after] = value
                        back_from[r + 1, after] = left
                        back_kind[r + 1, after] = k
                        reached[r + 1] = True
            if not any_alive:
                break
        if (r & 63) == 0 and stop[0] != 0:
            return False
    return bool(reached[n])


@compiled
def linearise(a: Arrays, stage: Longs, key: Floats, mode: int, order: Ints) -> None:
    """A topological order whose first key is ``stage`` (which must rise along edges).

    Second key: ``mode`` 0 the given ``key``; 1 last in, first out; 2 a predecessor's key moved a little by its own,
    which keeps branches together.
    """
    n = stage.shape[0]
    missing = np.empty(n, np.int32)
    heap_item = np.empty(n + 1, np.int32)
    second = key.copy()
    size, clock, filled = 0, 0, 0
    for v in range(n):
        missing[v] = a.pred_ptr[v + 1] - a.pred_ptr[v]
    pending = np.empty(n, np.int32)
    count = 0
    for v in range(n):
        if missing[v] == 0:
            pending[count] = v
            count += 1
    while True:
        if mode == 1:
            # What becomes ready at once goes in by its key.
            for i in range(1, count):
                v = pending[i]
                j = i - 1
                while j >= 0 and key[pending[j]] > key[v]:
                    pending[j + 1] = pending[j]
                    j -= 1
                pending[j + 1] = v
        for i in range(count):
            v = pending[i]
            if mode == 1:
                clock += 1
                second[v] = -clock
            size += 1
            pos = size
            while pos > 1:
                up = heap_item[pos // 2]
                if stage[up] < stage[v] or (stage[up] == stage[v] and second[up] <= second[v]):
                    break
                heap_item[pos] = up
                pos //= 2
            heap_item[pos] = v
        if size == 0:
            break
        u = heap_item[1]
        moved = heap_item[size]
        size -= 1
        pos = 1
        while size > 0 and 2 * pos <= size:
            child = 2 * pos
            if child < size:
                x, y = heap_item[child], heap_item[child + 1]
                if stage[y] < stage[x] or (stage[y] == stage[x] and second[y] < second[x]):
                    child += 1
            x = heap_item[child]
            if stage[moved] < stage[x] or (stage[moved] == stage[x] and second[moved] <= second[x]):
                break
            heap_item[pos] = x
            pos = child
        if size > 0:
            heap_item[pos] = moved
        order[filled] = u
        filled += 1
        count = 0
        for p in range(a.succ_ptr[u], a.succ_ptr[u + 1]):
            w = a.succ[p]
            missing[w] -= 1
            if missing[w] == 0:
                if mode == 2:
                    second[w] = second[u] + 0.1 * (key[w] - 0.5)
                pending[count] = w
                count += 1


@compiled
def segment_loads(a: Arrays, label: Ints, kind_of: Ints, loads: Floats) -> None:
    """Load of every stage of an assignment of items to stages."""
    loads[:] = 0.0
    n, m = label.shape[0], a.net_ptr.shape[0] - 1
    mark = np.full(loads.shape[0], -1, np.int64)
    for v in range(n):
        loads[label[v]] += a.work[kind_of[label[v]], v]
    for e in range(m):
        start, end = a.net_ptr[e], a.net_ptr[e + 1]
        cut = False
        for p in range(start + 1, end):
            if label[a.net_pins[p]] != label[a.net_pins[start]]:
                cut = True
                break
        if not cut:
            continue
        for p in range(start, end):
            stage = label[a.net_pins[p]]
            if mark[stage] != e:
                mark[stage] = e
                loads[stage] += a.net_cost[kind_of[stage], e]
