"""Slice one order of the items into stages: the decision at given limits, exact for that order.

Source: Pipelined inference (ICML 2024), §4 (slicing a topological order), with the segment costs of nets kept as a
suffix sum: for the right end r, ``step`` satisfies cost(l..r) = Σ_{q ≥ l} step[q], and a net changes O(1) entries when
one of its pins becomes the right end. A net with its maker at position s pays out where l ≤ s unless all its pins are
inside, and in where s < l ≤ its last pin (or s > r).

Stages end only where what is before fits on some number of devices and what is behind on the others, by work alone:
near to what limits have to be that is almost nowhere, and other right ends are passed over.

Plain problems have no ``Lines``: one line of work and transfers that cost the same in and out, one device a stage. The
kernel is compiled once for them and once for variants.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints, Longs
from partita.engines.kernels.compiled import called, compiled, inlined
from partita.engines.kernels.rows import row_of, sets_with
from partita.engines.kernels.throughput.arrays import Arrays, Codes, Lines, SliceTable
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.working_memory import PeakArrays

#: Share of all work within which sums of work are not told apart.
SLACK = 1e-9
#: Rows of what is summed along an order beside costs: entering bytes, fixed and active ones, those to synchronise.
ENTERS, FIXED, ACTIVE, SYNC = range(4)


class Met(NamedTuple):
    """What the items up to the right end have met: positions, -1 for none, and numbers of pins.

    ``first``, ``last`` and ``made`` (m,) are of a net's first pin, last pin and maker, ``seen`` (m,) its pins so far,
    ``cover`` (c,) the last pin of a cover.
    """

    first: Ints
    last: Ints
    made: Ints
    seen: Ints
    cover: Ints


@called
def nothing_met(nets: int, covers: int) -> Met:
    """Before the first item."""
    none = np.full((3, nets), -1, np.int32)
    return Met(none[0], none[1], none[2], np.zeros(nets, np.int32), np.full(covers, -1, np.int32))


@inlined
def meet_net(met: Met, e: int, r: int) -> None:
    """The right end is a pin of net e; once all is counted that it changes, it is the last one."""
    met.seen[e] += 1
    if met.first[e] < 0:
        met.first[e] = r


@inlined
def pay_along(a: Arrays | BlockProblem, met: Met, e: int, r: int, into: float, out: float, step: Floats) -> None:
    """Take in the right end as a pin of net e, for what it costs without and with its maker."""
    last, made = met.last[e], met.made[e]
    if last >= 0:
        step[last] -= into
        if 0 <= made < r:
            step[made] += into
    if made == r:
        step[r] += out
    else:
        step[r] += into
        if made >= 0:
            step[made] -= into
    if met.seen[e] == a.net.ptr[e + 1] - a.net.ptr[e]:
        step[met.first[e]] -= out


@inlined
def _enter_along(a: Arrays, met: Met, e: int, v: int, r: int, step: Floats) -> None:
    """Take in v as the right end: ``step`` for what enters a segment with net e."""
    size, last = a.net_entering[e], met.last[e]
    # Backwards readers come first, and are entered as long as the source, the last pin, is to the right. Forwards the
    # source comes first, and is entered where the segment starts between it and a reader.
    reads = a.net_source[e] != v
    if last >= 0 and (reads or a.backwards):
        step[last] -= size
    if reads:
        step[r] += size


@inlined
def hold_along(a: Arrays | BlockProblem, met: Met, v: int, r: int, own: Floats, shared: Floats, step: Floats) -> None:
    """Take in v as the right end: ``step`` for bytes of its own and of its covers."""
    step[r] += own[v]
    for c in sets_with(a.cover, v):
        if met.cover[c] >= 0:
            step[met.cover[c]] -= shared[c]
        step[r] += shared[c]


@inlined
def meet_covers(a: Arrays | BlockProblem, met: Met, v: int, r: int) -> None:
    """The covers of v have their last pin at the right end."""
    for c in sets_with(a.cover, v):
        met.cover[c] = r


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
        for t in row_of(k.op_ptr, k.op_tensors, v):
            start = near[t] + 1 if met[t] == turn else here
            met[t], near[t] = turn, here
            for q in range(start, here + 1):
                held[q] += k.size[t]
                peak = max(peak, held[q])
        peak = max(peak, held[here])
    return peak


@called
def _prefix_cuts(a: Arrays, b: Lines, order: Ints, limits: Floats) -> Bools:
    """(n + 1,) whether the links of both groups carry what crosses between the first i items and the others."""
    n, lines = order.shape[0], limits.shape[0] - 1
    fits = np.ones(n + 1, np.bool_)
    value = np.zeros((2, lines))
    seen = np.zeros(a.net.ptr.shape[0] - 1, np.int32)
    made = np.zeros(a.net.ptr.shape[0] - 1, np.bool_)
    for r in range(n):
        v = order[r]
        for e in sets_with(a.net, v):
            size = a.net.ptr[e + 1] - a.net.ptr[e]
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
        for line in range(lines):
            fits[r + 1] = fits[r + 1] and value[0, line] <= limits[line] and value[1, line] <= limits[line]
    return fits


@called
def _possible_ends(a: Arrays, b: Lines | None, order: Ints, limits: Floats, lines: int) -> Bools:
    """(n + 1,) whether the first i items may be all that some devices do: work alone, on the best kinds, forbids it."""
    n, kinds = order.shape[0], a.devices.shape[0]
    possible = np.ones(n + 1, np.bool_)
    devices = a.devices.sum()
    before = np.zeros(n + 1)
    for line in range(lines):
        limit = limits[line]
        for i in range(n):
            least = np.inf
            for k in range(kinds):
                if a.devices[k] > 0 and (b is None or b.can[k, order[i]] != 0):
                    least = min(least, a.work[k, order[i]] if b is None else b.work[k, order[i], line])
            before[i + 1] = before[i] + least
        room = SLACK * (limit * devices + before[n])
        if not (limit > 0.0 and limit < np.inf and before[n] < np.inf):
            continue
        for i in range(n + 1):
            fewest = np.ceil((before[i] - room) / limit)
            possible[i] = possible[i] and before[n] - before[i] <= (devices - fewest) * limit + room
    return possible


@inlined
def _take_in(a: Arrays, b: Lines | None, met: Met, v: int, r: int, cost: Floats, along: Floats) -> None:
    """Take in v as the right end: ``cost`` (K, L, n), and ``along`` (4, n) for what enters and is held."""
    for e in sets_with(a.net, v):
        meet_net(met, e, r)
        if b is not None and b.maker[e] == v:
            met.made[e] = r
        for k in range(cost.shape[0]):
            for line in range(cost.shape[1]):
                into = a.net_cost[k, e] if b is None else b.cost_in[k, e, line]
                out = a.net_cost[k, e] if b is None else b.cost_out[k, e, line]
                pay_along(a, met, e, r, into, out, cost[k, line])
        if a.recompute:
            _enter_along(a, met, e, v, r, along[ENTERS])
        met.last[e] = r
    hold_along(a, met, v, r, a.fixed, a.cover_fixed, along[FIXED])
    hold_along(a, met, v, r, a.active, a.cover_active, along[ACTIVE])
    if b is not None:
        hold_along(a, met, v, r, b.sync, b.cover_sync, along[SYNC])
    meet_covers(a, met, v, r)


@compiled
def slice_order(
    a: Arrays,
    b: Lines | None,
    peaks: PeakArrays | None,
    order: Ints,
    limits: Floats,
    codes: Codes,
    table: SliceTable,
    stop: Longs,
) -> bool:
    """Whether the order can be cut into stages within the limits; the cuts are left in the table.

    ``limits`` has one entry a line, and a last one for replicas that synchronise while they work. Fewer devices are
    never worse, also where memory depends on the number of stages already placed.
    """
    fewest, back_from, back_kind, back_replicas = table
    n, kinds, lines = order.shape[0], a.devices.shape[0], 1 if b is None else limits.shape[0] - 1
    limited, recompute, none = a.limited, a.recompute, np.int32(1 << 30)
    hard = limited if b is None else b.hard
    m, covers = a.net.ptr.shape[0] - 1, a.cover_fixed.shape[0]
    cut_fits = np.ones(n + 1, np.bool_)
    if b is not None and b.grouped:
        cut_fits = _prefix_cuts(a, b, order, limits)
    possible = _possible_ends(a, b, order, limits, lines)
    met = nothing_met(m, covers)
    cost = np.zeros((kinds, lines, n))
    along = np.zeros((4, n))
    enters, fixes, actives, syncs = along[ENTERS], along[FIXED], along[ACTIVE], along[SYNC]
    fewest[:] = none
    fewest[0, 0] = 0
    reached = np.zeros(n + 1, np.bool_)
    reached[0] = True
    least = 1 if recompute else a.in_flight[1]
    if b is not None and not recompute:
        for k in range(kinds):
            least = min(least, b.flights[1, 1], b.flights[b.replicas[k], 1])
    work, comm = np.zeros((kinds, lines)), np.zeros((kinds, lines))
    alive = np.zeros(kinds, np.bool_)
    if peaks is not None:
        near, turn = np.zeros(peaks.size.shape[0], np.int32), np.full(peaks.size.shape[0], -1, np.int32)
        held = np.zeros(peaks.scratch.shape[0])
    for r in range(n):
        v = order[r]
        _take_in(a, b, met, v, r, cost, along)
        if not possible[r + 1]:
            continue
        for k in range(kinds):
            alive[k] = a.devices[k] > 0
        work[:] = 0.0
        comm[:] = 0.0
        fixed, active, enter, space, sync, ops = 0.0, 0.0, 0.0, 0.0, 0.0, 0
        for left in range(r, -1, -1):
            u = order[left]
            any_alive = False
            if limited:
                fixed += fixes[left]
                active += actives[left]
                enter += enters[left]
                space = max(space, a.workspace[u])
            if b is not None:
                sync += syncs[left]
            if peaks is not None and b is not None and b.peak:
                space = max(space, _extend(peaks, u, r, ops, near, turn, held))
                ops += peaks.item_ptr[u + 1] - peaks.item_ptr[u]
            for k in range(kinds):
                if not alive[k]:
                    continue
                most = 1 if b is None else b.replicas[k]
                if b is not None:
                    alive[k] = b.can[k, u] != 0
                fits = reached[left]
                for line in range(lines):
                    work[k, line] += a.work[k, u] if b is None else b.work[k, u, line]
                    comm[k, line] += cost[k, line, left]
                    if work[k, line] > most * limits[line]:
                        alive[k] = False
                    fits = fits and work[k, line] + comm[k, line] <= most * limits[line]
                if not alive[k] or (hard and fixed + least * active + space > a.memory[k]):
                    alive[k] = False
                    continue
                any_alive = True
                if not fits:
                    continue
                may_cross = b is None or not b.grouped or (b.phase[k] == 1 and cut_fits[left])
                for c in range(codes.digit_sum.shape[0]):
                    used = fewest[left, c]
                    if used == none:
                        continue
                    if b is not None and not may_cross and b.phase[k] != codes.phases[c]:
                        continue
                    mine = used if k == 0 else codes.digits[c, k]
                    for replicas in range(1, min(most, a.devices[k] - mine) + 1):
                        over = 0.0
                        if limited:
                            to_end = used + codes.digit_sum[c] + replicas
                            if b is None:
                                q = a.in_flight[to_end]
                            else:
                                q = b.flights[replicas, to_end if a.backwards else 1]
                            need = fixed + active + q * enter + space if recompute else fixed + q * active + space
                            over = need - a.memory[k]
                            if hard and need > a.memory[k]:
                                continue
                        if b is not None:
                            reload = max(0.0, over) * b.reload_time[k]
                            together = (replicas - 1) * sync * b.sync_time[k]
                            fits = not b.sync_apart or together <= replicas * limits[lines]
                            for line in range(lines):
                                load = work[k, line] + comm[k, line]
                                load += b.with_reload[line] * reload + b.with_sync[line] * together
                                fits = fits and load <= replicas * limits[line]
                            if not fits:
                                continue
                        after = c if k == 0 else c + replicas * codes.stride[k]
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
