"""The search over downsets for variants: loads of several lines, replicas, groups and reloading.

The rules are stated and proved in ``partita.problems.throughput.solvers.variant``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.kernels.bits import has
from partita.engines.kernels.compiled import allocating_nothing, inlined
from partita.engines.kernels.rows import row_of, sets_with
from partita.engines.kernels.throughput import decisions
from partita.engines.kernels.throughput.downsets import cut_links
from partita.engines.kernels.throughput.search import StageSteps, search_downsets
from partita.engines.kernels.throughput.search_state import LEVEL, STAMP, DownsetSearch, StageTrial, Variant
from partita.engines.kernels.throughput.working_memory import FITS, OVER, fit
from partita.ground.rounding import SUMMED

#: States tried when the order of a stage is searched for, beside two for each of its operators.
FIT_NODES = 400

#: Columns of ``Scratch.saved``: bytes, workspace, entering bytes, bytes to synchronise.
MEM, SPACE, ENTER, SYNC = range(4)


class _VariantStage(NamedTuple):
    """What holds throughout one expansion: what the stage may use, and what it can reach."""

    stage: StageTrial
    ready: int
    reached: int
    top: int
    possible: bool
    flights: int
    memory: float


@inlined
def _crosses(c: DownsetSearch[Variant]) -> bool:
    y = c.own
    if not y.lines.grouped:
        return False
    cut_links(c.arrays, y.lines, c.scratch, y.links)
    for group in range(2):
        for line in range(y.links.shape[1]):
            if y.links[group, line] > y.limits[line]:
                return False
    return True


@inlined
def _start(c: DownsetSearch[Variant], stage: StageTrial) -> _VariantStage:
    a, b, w, s, x, y = c.arrays, c.own.lines, c.weights, c.store, c.scratch, c.own
    n, m = x.in_downset.shape[0], x.net_in.shape[0]
    flights = b.flights[stage.replicas, s.counters[LEVEL] + stage.replicas if a.backwards else 1]
    decisions.hold(a, x, flights)
    # Nothing bounds what lies before an item.
    most = stage.replicas * y.limits[0]
    ready, reached, top = decisions.reach_items(a, s, x, b.chain[stage.kind], most, w.item[:0], x.most_before)
    decisions.open_nets(a, s, x, reached)
    stamp = s.counters[STAMP]
    for rule in range(w.choice.shape[0]):
        row = w.choice[rule, stage.rest]
        total, reachable, cross = 0.0, 0.0, 0.0
        for v in range(n):
            if x.in_downset[v] == 0:
                total += w.item[row, v]
        for i in range(reached):
            reachable += w.item[row, x.reach[i]]
        for e in range(m):
            if x.net_in[e] > 0:
                out = x.net_out[e] if x.stamp_net[e] == stamp else a.net.ptr[e + 1] - a.net.ptr[e]
                if out > x.net_in[e]:
                    cross += w.net[row, e]
        y.row[rule], y.rest[rule], y.reachable[rule] = row, total, reachable
        y.lost[0, rule], y.cross[0, rule] = 0.0, cross
    y.value[0, :] = 0.0
    x.saved[0, :] = 0.0
    possible = _room(c, stage, 0)
    return _VariantStage(stage, ready, reached, top, possible, flights, a.memory[stage.kind])


@inlined
def _pay(c: DownsetSearch[Variant], g: _VariantStage, e: int, depth: int, sign: float) -> None:
    """Add (or take away) what net e surely costs the stage being built."""
    b, x, value, kind = c.own.lines, c.scratch, c.own.value, g.stage.kind
    if x.net_here[e] == 0 or x.net_out[e] == 0:
        return
    status = x.status[b.maker[e]]
    for line in range(value.shape[1]):
        into, out = b.cost_in[kind, e, line], b.cost_out[kind, e, line]
        if status == decisions.CHOSEN:
            into = out
        elif status in (decisions.OPEN, decisions.LISTED):
            into = min(into, out)
        value[depth, line] += sign * into


@inlined
def _count_crossing(c: DownsetSearch[Variant], e: int, depth: int) -> None:
    """Net e surely crosses from now on."""
    w, y = c.weights, c.own
    for rule in range(y.row.shape[0]):
        y.cross[depth, rule] += w.net[y.row[rule], e]


@inlined
def _sync_with(c: DownsetSearch[Variant], v: int, sync: float) -> float:
    """Bytes to synchronise of the stage with an item more."""
    a, b, x = c.arrays, c.own.lines, c.scratch
    sync += b.sync[v]
    for cover in sets_with(a.cover, v):
        if x.cover_here[cover] == 0:
            sync += b.cover_sync[cover]
    return sync


@inlined
def _within(
    c: DownsetSearch[Variant], g: _VariantStage, values: Floats, need: float, sync: float, limits: Floats
) -> bool:
    """Whether lines, memory and synchronisation of a stage respect the limits (the last one is of synchronisation)."""
    b, kind, replicas = c.own.lines, g.stage.kind, g.stage.replicas
    over = 0.0
    if need > g.memory:
        if b.hard:
            return False
        over = (need - g.memory) * b.reload_time[kind]
    together = (replicas - 1) * sync * b.sync_time[kind]
    lines = values.shape[0]
    if b.sync_apart and together > replicas * limits[lines]:
        return False
    for line in range(lines):
        value = values[line] + b.with_reload[line] * over + b.with_sync[line] * together
        if value > replicas * limits[line]:
            return False
    return True


@inlined
def _orderable(
    c: DownsetSearch[Variant], g: _VariantStage, values: Floats, held: float, sync: float, limits: Floats, strict: bool
) -> bool:
    """Whether the chosen items of ``x.reach`` can run in an order whose peak respects the limits.

    Undecided counts as true, or as false if ``strict``; so does what is within rounding.
    """
    b, x, kind, replicas = c.own.lines, c.scratch, g.stage.kind, g.stage.replicas
    if b.reload_time[kind] == 0.0 or g.memory == np.inf:
        return True
    over = np.inf
    together = (replicas - 1) * sync * b.sync_time[kind]
    for line in range(values.shape[0]):
        if b.with_reload[line] > 0.0:
            left = replicas * limits[line] - values[line] - b.with_sync[line] * together
            over = min(over, left / b.with_reload[line])
    if over == np.inf:
        return True
    most = g.memory + over / b.reload_time[kind] - held
    margin = SUMMED * (g.memory + abs(most) + held)
    most = most - margin if strict else most + margin
    k, scratch, count = c.own.peaks, c.own.peak_scratch, 0
    for i in range(g.reached):
        v = x.reach[i]
        if x.status[v] == decisions.CHOSEN:
            for u in row_of(k.item_ptr, k.item_ops, v):
                scratch.members[count] = u
                count += 1
    answer = fit(k, scratch, count, most, FIT_NODES + 2 * count)
    return answer == FITS if strict else answer != OVER


@inlined
def _room(c: DownsetSearch[Variant], stage: StageTrial, depth: int) -> bool:
    """Whether what surely remains fits on the devices that remain."""
    y, budget = c.own, c.weights.budget
    for rule in range(budget.shape[0]):
        weight = y.rest[rule] - (y.reachable[rule] - y.lost[depth, rule]) + y.cross[depth, rule]
        if weight > budget[rule, stage.rest]:
            return False
    return True


@inlined
def _include(c: DownsetSearch[Variant], g: _VariantStage, v: int, depth: int) -> bool:
    a, b, x, y, after = c.arrays, c.own.lines, c.scratch, c.own, depth + 1
    for line in range(y.value.shape[1]):
        y.value[after, line] = y.value[depth, line] + b.work[g.stage.kind, v, line]
    decisions.copy_row(y.lost, depth)
    decisions.copy_row(y.cross, depth)
    mem, space = decisions.with_item(a, x, v, x.saved[depth, MEM], x.saved[depth, SPACE])
    enter, sync = x.saved[depth, ENTER], _sync_with(c, v, x.saved[depth, SYNC])
    for e in sets_with(a.net, v):
        _pay(c, g, e, after, -1.0)
    x.status[v] = decisions.CHOSEN
    for e in sets_with(a.net, v):
        mine = x.net_here[e]
        x.net_here[e] = mine + 1
        _pay(c, g, e, after, 1.0)
        if mine == 0 and x.net_in[e] == 0 and x.net_out[e] > 0:
            _count_crossing(c, e, after)
        if a.recompute:
            enter += decisions.entering(a, x, e, v, mine)
    x.saved[after, MEM], x.saved[after, SPACE] = mem, space
    x.saved[after, ENTER], x.saved[after, SYNC] = enter, sync
    # What enters may leave again when the search runs backwards: only then it is not certain.
    need = mem + space
    if a.recompute and not a.backwards:
        need += g.flights * enter
    if _within(c, g, y.value[after], need, sync, y.limits) and _room(c, g.stage, after):
        return True
    x.status[v] = decisions.OPEN
    for e in sets_with(a.net, v):
        x.net_here[e] -= 1
    return False


@inlined
def _worth_excluding(c: DownsetSearch[Variant], g: _VariantStage, v: int, depth: int) -> bool:
    """Always, as far as is known so far."""
    for rows in (c.own.value, c.scratch.saved, c.own.lost, c.own.cross):
        decisions.copy_row(rows, depth)
    return True


@inlined
def _leave(c: DownsetSearch[Variant], g: _VariantStage, u: int, depth: int) -> None:
    a, w, x, y = c.arrays, c.weights, c.scratch, c.own
    for rule in range(y.row.shape[0]):
        y.lost[depth, rule] += w.item[y.row[rule], u]
    for e in sets_with(a.net, u):
        _pay(c, g, e, depth, -1.0)
    x.status[u] = decisions.EXCLUDED
    for e in sets_with(a.net, u):
        x.net_out[e] += 1
        _pay(c, g, e, depth, 1.0)
        if x.net_out[e] == x.net_in[e] + 1 and x.net_in[e] + x.net_here[e] > 0:
            _count_crossing(c, e, depth)


@inlined
def _fits(c: DownsetSearch[Variant], g: _VariantStage, depth: int) -> bool:
    now = c.scratch.saved[depth]
    fits = _within(c, g, c.own.value[depth], now[MEM] + now[SPACE], now[SYNC], c.own.limits)
    return fits and _room(c, g.stage, depth)


@inlined
def _feasible(c: DownsetSearch[Variant], g: _VariantStage, depth: int) -> bool:
    now, y = c.scratch.saved[depth], c.own
    need = now[MEM] + now[SPACE]
    if c.arrays.recompute:
        need += g.flights * now[ENTER]
    if not _within(c, g, y.value[depth], need, now[SYNC], y.limits):
        return False
    return not y.lines.peak or _orderable(c, g, y.value[depth], now[MEM], now[SYNC], y.limits, False)


@inlined
def _worth_keeping(c: DownsetSearch[Variant], g: _VariantStage, depth: int, count: int) -> bool:
    """Also whether the first group can still end after the stage."""
    x = c.scratch
    if c.phase[g.stage.kind] == 0 and c.own.cuts.shape[0] > 0 and not _reaches(c, g, depth, -1):
        return False
    if c.dominance:
        for i in range(count):
            if x.decision[i] == 0 and _replaceable(c, g, depth, x.queue[i]):
                return False
    return True


@inlined
def _reaches(c: DownsetSearch[Variant], g: _VariantStage, depth: int, but: int) -> bool:
    """Whether the group filled first may still end where one of the cuts does, without the item ``but``.

    What the stage built leaves must fit on the devices left in this group, and what lies beyond the cut.
    """
    x, y, cuts = c.scratch, c.own, c.own.cuts
    for cut in range(cuts.shape[0]):
        if but >= 0 and has(cuts[cut], but):
            continue
        possible = True
        for i in range(cuts.shape[1]):
            if x.words[i] & ~cuts[cut, i] != 0:
                possible = False
                break
        if not possible:
            continue
        for rule in range(y.row.shape[0]):
            weight = y.rest[rule] - (y.reachable[rule] - y.lost[depth, rule])
            if weight > y.first[rule, g.stage.rest] + y.beyond[y.row[rule], cut]:
                possible = False
                break
        if possible:
            return True
    return False


@inlined
def _cheap_to_move(c: DownsetSearch[Variant], v: int) -> bool:
    """Whether on every line a later stage without v saves at least what v's nets may newly cost there."""
    a, b, x = c.arrays, c.own.lines, c.scratch
    for other in range(x.remaining.shape[0]):
        if x.remaining[other] == 0 or b.can[other, v] == 0:
            continue
        for line in range(b.work.shape[2]):
            more = 0.0
            for e in sets_with(a.net, v):
                placed = x.net_in[e] + x.net_here[e]
                if a.net.ptr[e + 1] - a.net.ptr[e] - placed < 2:
                    continue
                if b.maker[e] == v:
                    back = b.cost_out[other, e, line] if placed > 0 else 0.0
                    more += max(0.0, b.cost_in[other, e, line] - back)
                elif placed == 0:
                    more += b.cost_out[other, e, line]
            if more > b.work[other, v, line]:
                return False
    return True


@inlined
def _crosses_freely(c: DownsetSearch[Variant], v: int) -> bool:
    """Whether nets of v that newly cross between the groups, or cross the other way, cost the groups nothing."""
    a, b, x = c.arrays, c.own.lines, c.scratch
    for e in sets_with(a.net, v):
        placed = x.net_in[e] + x.net_here[e]
        if a.net.ptr[e + 1] - a.net.ptr[e] - placed < 2 or (placed > 0 and b.maker[e] != v):
            continue
        for line in range(b.work.shape[2]):
            for group in range(2):
                if placed == 0 and max(b.group_in[group, e, line], b.group_out[group, e, line]) > 0:
                    return False
                if b.group_in[group, e, line] != b.group_out[group, e, line]:
                    return False
    return True


@inlined
def _replaceable(c: DownsetSearch[Variant], g: _VariantStage, depth: int, v: int) -> bool:
    """Whether the stage with the ready item v is feasible and at least as good for all that follows."""
    if not _cheap_to_move(c, v):
        return False
    a, b, x, y, kind = c.arrays, c.own.lines, c.scratch, c.own, g.stage.kind
    other_group = False
    for other in range(x.remaining.shape[0]):
        other_group = other_group or (x.remaining[other] > 0 and c.phase[other] != c.phase[kind])
    if other_group and y.cuts.shape[0] > 0:
        # The later device is in this group unless the group can end without v.
        if _reaches(c, g, depth, v):
            return False
    elif other_group and not _crosses_freely(c, v):
        return False
    lines = b.work.shape[2]
    for line in range(lines):
        y.trial[line] = y.value[depth, line] + b.work[kind, v, line]
    for e in sets_with(a.net, v):
        inside = x.status[b.maker[e]] == decisions.CHOSEN
        for line in range(lines):
            if x.net_here[e] > 0:
                y.trial[line] -= b.cost_out[kind, e, line] if inside else b.cost_in[kind, e, line]
            if x.net_out[e] > 1:
                inner_maker = inside or b.maker[e] == v
                y.trial[line] += b.cost_out[kind, e, line] if inner_maker else b.cost_in[kind, e, line]
    held, space = decisions.with_item(a, x, v, x.saved[depth, MEM], x.saved[depth, SPACE])
    sync = _sync_with(c, v, x.saved[depth, SYNC])
    if not _within(c, g, y.trial, held + space, sync, y.inner):
        return False
    if not b.peak:
        return True
    x.status[v] = decisions.CHOSEN
    fits = _orderable(c, g, y.trial, held, sync, y.inner, True)
    x.status[v] = decisions.EXCLUDED
    return fits


_STEPS = StageSteps(_crosses, _start, _include, _worth_excluding, _leave, _fits, _feasible, _worth_keeping)


@allocating_nothing
def search_variant(c: DownsetSearch[Variant]) -> int:
    """See ``search_downsets``; nothing is summed in ``tally``."""
    return search_downsets(c, _STEPS)
