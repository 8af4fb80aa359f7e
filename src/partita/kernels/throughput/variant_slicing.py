"""Slice one order of the items of a variant into stages, and price given stages.

As ``kernels.throughput.slicing``, with loads of several lines, replicas, groups and reloading. For the right end r,
``diff`` satisfies line(l..r) = Σ_{q ≥ l} diff[q]. A net with its maker at position s pays out where l ≤ s unless all
its pins are inside, and in where s < l ≤ its last pin (or s > r): every pin that becomes the right end changes O(1)
entries.
"""

from __future__ import annotations

import numpy as np

from partita.kernels.compiled import compiled
from partita.kernels.throughput.arrays import Arrays, Bytes, Floats, Ints, Lines, Longs
from partita.kernels.throughput.slicing import enter_along, hold_along
from partita.kernels.throughput.working_memory import PeakArrays


@compiled
def _extend(k: PeakArrays, item: int, turn: int, end: int, near: Ints, met: Ints, held: Floats) -> float:
    """Put the operators of an item before those that run so far; most memory held by any that it changes.

    ``held[i]`` is what the i-th operator from the end needs, ``end`` their number. A tensor met in this ``turn`` is
    held back to its operator nearest to the front, ``near``. In a search from the outputs all is turned round.
    """
    peak = 0.0
    first, size = k.item_ptr[item], k.item_ptr[item + 1] - k.item_ptr[item]
    for i in range(size):
        v = k.item_ops[first + size - 1 - i]
        here = end + i
        held[here] = k.scratch[v]
        for p in range(k.op_ptr[v], k.op_ptr[v + 1]):
            t = k.op_tensors[p]
            start = near[t] + 1 if met[t] == turn else here
            met[t], near[t] = turn, here
            for q in range(start, here + 1):
                held[q] += k.size[t]
                peak = max(peak, held[q])
        peak = max(peak, held[here])
    return peak


@compiled
def _prefix_cuts(a: Arrays, b: Lines, order: Ints, limits: Floats, fits: Bytes) -> None:
    """``fits[i]``: the links of both groups carry what crosses between the first i items and the others."""
    n, lines = order.shape[0], limits.shape[0] - 1
    value = np.zeros((2, lines))
    seen = np.zeros(a.net_ptr.shape[0] - 1, np.int32)
    made = np.zeros(a.net_ptr.shape[0] - 1, np.bool_)
    fits[0] = 1
    for r in range(n):
        v = order[r]
        for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
            e = a.item_nets[p]
            size = a.net_ptr[e + 1] - a.net_ptr[e]
            for turn in range(2):
                # Take away what the net paid before, add what it pays now.
                if turn == 1:
                    seen[e] += 1
                    made[e] = made[e] or b.maker[e] == v
                if seen[e] == 0 or seen[e] == size:
                    continue
                sign = 1.0 if turn == 1 else -1.0
                for line in range(lines):
                    out, into = (0, 1) if made[e] else (1, 0)
                    value[out, line] += sign * b.group_out[out, e, line]
                    value[into, line] += sign * b.group_in[into, e, line]
        ok = True
        for line in range(lines):
            ok = ok and value[0, line] <= limits[line] and value[1, line] <= limits[line]
        fits[r + 1] = 1 if ok else 0


@compiled
def slice_variant(
    a: Arrays,
    b: Lines,
    peaks: PeakArrays,
    order: Ints,
    limits: Floats,
    stride: Longs,
    digit_sum: Longs,
    digits: Longs,
    phases: Longs,
    fewest: Ints,
    back_from: Ints,
    back_kind: Bytes,
    back_replicas: Ints,
    stop: Longs,
) -> bool:
    """Whether the order can be cut into stages within the limits; the cuts are left in ``back_*``.

    ``fewest[i, code]`` is the fewest devices of kind 0 that hold the first i items when ``code`` counts the devices of
    the other kinds.
    """
    n, kinds, codes, lines = order.shape[0], a.devices.shape[0], digit_sum.shape[0], limits.shape[0] - 1
    hard, recompute, backwards = b.hard, a.recompute, a.backwards
    grouped, apart = b.grouped, b.sync_apart
    m, none, covers = a.net_ptr.shape[0] - 1, np.int32(1 << 30), a.cover_fixed.shape[0]
    cut_fits = np.ones(n + 1, np.int8)
    if grouped:
        _prefix_cuts(a, b, order, limits, cut_fits)
    last, first, made = np.full(m, -1, np.int32), np.full(m, -1, np.int32), np.full(m, -1, np.int32)
    seen, cover_last = np.zeros(m, np.int32), np.full(covers, -1, np.int32)
    diff = np.zeros((n, kinds, lines))
    diff_enter, diff_fixed, diff_active, diff_sync = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    fewest[:] = none
    fewest[0, 0] = 0
    least = 1 if recompute else b.flights[1, 1]
    for k in range(kinds):
        least = min(least, 1 if recompute else b.flights[b.replicas[k], 1])
    work, value = np.zeros((kinds, lines)), np.zeros((kinds, lines))
    alive = np.zeros(kinds, np.bool_)
    reached = np.zeros(n + 1, np.bool_)
    reached[0] = True
    is_peak = b.peak
    near, met = np.zeros(peaks.size.shape[0], np.int32), np.full(peaks.size.shape[0], -1, np.int32)
    peak_held = np.zeros(peaks.scratch.shape[0])
    for r in range(n):
        v = order[r]
        for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
            e = a.item_nets[p]
            seen[e] += 1
            if b.maker[e] == v:
                made[e] = r
            if first[e] < 0:
                first[e] = r
            done = seen[e] == a.net_ptr[e + 1] - a.net_ptr[e]
            for k in range(kinds):
                for line in range(lines):
                    into, out = b.cost_in[k, e, line], b.cost_out[k, e, line]
                    if last[e] >= 0:
                        diff[last[e], k, line] -= into
                        if made[e] >= 0 and made[e] < r:
                            diff[made[e], k, line] += into
                    if made[e] < 0:
                        diff[r, k, line] += into
                    elif made[e] < r:
                        diff[r, k, line] += into
                        diff[made[e], k, line] -= into
                    if made[e] == r:
                        diff[r, k, line] += out
                    if done:
                        diff[first[e], k, line] -= out
            if recompute:
                enter_along(a, e, v, r, last[e], diff_enter)
            last[e] = r
        hold_along(a, v, r, a.fixed, a.cover_fixed, cover_last, diff_fixed)
        hold_along(a, v, r, a.active, a.cover_active, cover_last, diff_active)
        hold_along(a, v, r, b.sync, b.cover_sync, cover_last, diff_sync)
        for p in range(a.item_cover_ptr[v], a.item_cover_ptr[v + 1]):
            cover_last[a.item_covers[p]] = r
        work[:] = 0.0
        value[:] = 0.0
        for k in range(kinds):
            alive[k] = a.devices[k] > 0
        fixed, active, enter, space, sync = 0.0, 0.0, 0.0, 0.0, 0.0
        ops = 0
        for left in range(r, -1, -1):
            u = order[left]
            any_alive = False
            fixed += diff_fixed[left]
            active += diff_active[left]
            enter += diff_enter[left]
            sync += diff_sync[left]
            space = max(space, a.workspace[u])
            if is_peak:
                space = max(space, _extend(peaks, u, r, ops, near, met, peak_held))
                ops += peaks.item_ptr[u + 1] - peaks.item_ptr[u]
            for k in range(kinds):
                if not alive[k]:
                    continue
                most = b.replicas[k]
                alive[k] = b.can[k, u] != 0 and not (hard and fixed + least * active + space > a.memory[k])
                for line in range(lines):
                    work[k, line] += b.work[k, u, line]
                    value[k, line] += b.work[k, u, line] + diff[left, k, line]
                    if work[k, line] > most * limits[line]:
                        alive[k] = False
                if not alive[k]:
                    continue
                any_alive = True
                if not reached[left]:
                    continue
                fits = True
                for line in range(lines):
                    fits = fits and value[k, line] <= most * limits[line]
                if not fits:
                    continue
                for c in range(codes):
                    used = fewest[left, c]
                    if used == none:
                        continue
                    if grouped and b.phase[k] != phases[c] and not (b.phase[k] == 1 and cut_fits[left] != 0):
                        continue
                    mine = used if k == 0 else digits[c, k]
                    for replicas in range(1, min(most, a.devices[k] - mine) + 1):
                        over = 0.0
                        to_end = used + digit_sum[c] + replicas if backwards else 1
                        q = b.flights[replicas, to_end]
                        need = fixed + active + q * enter + space if recompute else fixed + q * active + space
                        if need > a.memory[k]:
                            if hard:
                                continue
                            over = (need - a.memory[k]) * b.reload_time[k]
                        together = (replicas - 1) * sync * b.sync_time[k]
                        fits = not apart or together <= replicas * limits[lines]
                        for line in range(lines):
                            load = value[k, line] + b.with_reload[line] * over + b.with_sync[line] * together
                            fits = fits and load <= replicas * limits[line]
                        if not fits:
                            continue
                        after = c if k == 0 else c + replicas * stride[k]
                        total = used + replicas if k == 0 else used
                        if total < fewest[r + 1, after]:
                            fewest[r + 1, after] = total
                            back_from[r + 1, after] = left
                            back_kind[r + 1, after] = k
                            back_replicas[r + 1, after] = replicas
                            reached[r + 1] = True
                        break
            if not any_alive:
                break
        if (r & 63) == 0 and stop[0] != 0:
            return False
    return bool(reached[n])


@compiled
def stage_values(
    a: Arrays,
    b: Lines,
    label: Ints,
    kind_of: Ints,
    flights: Longs,
    space: Floats,
    values: Floats,
    extra: Floats,
    links: Floats,
) -> None:
    """Lines of every stage, bytes over its memory and bytes it synchronises (``extra``), and lines of the groups.

    ``space`` is what stages need while they run, or 0 for the largest workspace of their items.
    """
    stages = values.shape[0]
    n, m = label.shape[0], a.net_ptr.shape[0] - 1
    recompute = a.recompute
    values[:] = 0.0
    extra[:] = 0.0
    links[:] = 0.0
    for v in range(n):
        i = label[v]
        values[i] += b.work[kind_of[i], v]
        share = 1 if recompute else flights[i]
        extra[i, 0] += a.fixed[v] + share * a.active[v]
        extra[i, 1] += b.sync[v]
        space[i] = max(space[i], a.workspace[v])
    mark = np.full(stages, -1, np.int64)
    group = np.zeros(2, np.bool_)
    for e in range(m):
        start, end = a.net_ptr[e], a.net_ptr[e + 1]
        home = label[b.maker[e]]
        source = label[a.net_source[e]] if a.net_source[e] >= 0 else -1
        group[:] = False
        several = 0
        for p in range(start, end):
            stage = label[a.net_pins[p]]
            group[b.phase[kind_of[stage]]] = True
            if mark[stage] != e:
                mark[stage] = e
                several += 1
        if several < 2:
            continue
        for p in range(start, end):
            stage = label[a.net_pins[p]]
            if mark[stage] != e:
                continue
            mark[stage] = -1
            values[stage] += b.cost_out[kind_of[stage], e] if stage == home else b.cost_in[kind_of[stage], e]
            if recompute and source >= 0 and stage != source:
                extra[stage, 0] += flights[stage] * a.net_entering[e]
        if group[0] and group[1]:
            g = b.phase[kind_of[home]]
            links[g] += b.group_out[g, e]
            links[1 - g] += b.group_in[1 - g, e]
    held = np.zeros((a.cover_fixed.shape[0], stages), np.bool_)
    for v in range(n):
        i = label[v]
        for p in range(a.item_cover_ptr[v], a.item_cover_ptr[v + 1]):
            c = a.item_covers[p]
            if not held[c, i]:
                held[c, i] = True
                share = 1 if recompute else flights[i]
                extra[i, 0] += a.cover_fixed[c] + share * a.cover_active[c]
                extra[i, 1] += b.cover_sync[c]
    for i in range(stages):
        extra[i, 0] = max(0.0, extra[i, 0] + space[i] - a.memory[kind_of[i]])
