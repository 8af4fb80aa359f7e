"""What a stage of a variant costs while it is built: certain lines, limits, what must still fit, and dominance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.kernels.compiled import inlined
from partita.kernels.throughput.arrays import Arrays, Floats, Lines, Longs
from partita.kernels.throughput.bits import has
from partita.kernels.throughput.decisions import CHOSEN, EXCLUDED, LISTED, OPEN
from partita.kernels.throughput.search_state import LineQuestion, LineScratch, LineWeights, Scratch
from partita.kernels.throughput.working_memory import FITS, OVER, fit

#: States tried when the order of a stage is searched for, beside two for each of its operators.
FIT_NODES = 400

#: Columns of ``Scratch.saved``: bytes, workspace, entering bytes, bytes to synchronise.
MEM, SPACE, ENTER, SYNC = range(4)


class VariantStage(NamedTuple):
    """What holds throughout one expansion: where it leads, what it may use, and what it can reach."""

    state: int
    kind: int
    replicas: int
    code_after: int
    used_after: int
    rest: int
    remaining: Longs
    flights: int
    memory: float
    ready: int
    reached: int
    top: int


@inlined
def pay(b: Lines, x: Scratch, y: LineScratch, kind: int, e: int, depth: int, sign: float) -> None:
    """Add (or take away) what net e surely costs the stage being built."""
    if x.net_here[e] == 0 or x.net_out[e] == 0:
        return
    status = x.status[b.maker[e]]
    for line in range(y.value.shape[1]):
        into, out = b.cost_in[kind, e, line], b.cost_out[kind, e, line]
        if status == CHOSEN:
            into = out
        elif status in (OPEN, LISTED):
            into = min(into, out)
        y.value[depth, line] += sign * into


@inlined
def within(b: Lines, g: VariantStage, values: Floats, need: float, sync: float, limits: Floats) -> bool:
    """Whether lines, memory and synchronisation of a stage respect the limits (the last one is of synchronisation)."""
    over = 0.0
    if need > g.memory:
        if b.hard:
            return False
        over = (need - g.memory) * b.reload_time[g.kind]
    together = (g.replicas - 1) * sync * b.sync_time[g.kind]
    lines = values.shape[0]
    if b.sync_apart and together > g.replicas * limits[lines]:
        return False
    for line in range(lines):
        value = values[line] + b.with_reload[line] * over + b.with_sync[line] * together
        if value > g.replicas * limits[line]:
            return False
    return True


@inlined
def orderable(
    b: Lines,
    x: Scratch,
    y: LineScratch,
    g: VariantStage,
    values: Floats,
    held: float,
    sync: float,
    limits: Floats,
    strict: bool,
) -> bool:
    """Whether the chosen items of ``x.reach`` can run in an order whose peak respects the limits.

    Undecided counts as true, or as false if ``strict``; so does what is within rounding.
    """
    if b.reload_time[g.kind] == 0.0 or g.memory == np.inf:
        return True
    over = np.inf
    together = (g.replicas - 1) * sync * b.sync_time[g.kind]
    for line in range(values.shape[0]):
        if b.with_reload[line] > 0.0:
            left = g.replicas * limits[line] - values[line] - b.with_sync[line] * together
            over = min(over, left / b.with_reload[line])
    if over == np.inf:
        return True
    most = g.memory + over / b.reload_time[g.kind] - held
    margin = 1e-11 * (g.memory + abs(most) + held)
    most = most - margin if strict else most + margin
    k, count = y.peaks, 0
    for i in range(g.reached):
        v = x.reach[i]
        if x.status[v] == CHOSEN:
            for p in range(k.item_ptr[v], k.item_ptr[v + 1]):
                y.peak_scratch.members[count] = k.item_ops[p]
                count += 1
    answer = fit(k, y.peak_scratch, count, most, FIT_NODES + 2 * count)
    return answer == FITS if strict else answer != OVER


@inlined
def room(w: LineWeights, y: LineScratch, depth: int, rest: int) -> bool:
    """Whether what surely remains fits on the devices that remain."""
    for c in range(w.choice.shape[0]):
        weight = y.rest[c] - (y.reachable[c] - y.lost[depth, c]) + y.cross[depth, c]
        if weight > w.budget[c, rest]:
            return False
    return True


@inlined
def reaches(
    w: LineWeights, x: Scratch, y: LineScratch, question: LineQuestion, depth: int, rest: int, but: int
) -> bool:
    """Whether the group filled first may still end where one of the cuts does, without the item ``but``.

    What the stage built leaves must fit on the devices left in this group, and what lies beyond the cut.
    """
    cuts = question.cuts
    for c in range(cuts.shape[0]):
        if but >= 0 and has(cuts[c], but):
            continue
        possible = True
        for i in range(cuts.shape[1]):
            if x.words[i] & ~cuts[c, i] != 0:
                possible = False
                break
        if not possible:
            continue
        for rule in range(w.choice.shape[0]):
            weight = y.rest[rule] - (y.reachable[rule] - y.lost[depth, rule])
            if weight > w.first[rule, rest] + w.beyond[y.row[rule], c]:
                possible = False
                break
        if possible:
            return True
    return False


@inlined
def _cheap_to_move(a: Arrays, b: Lines, x: Scratch, g: VariantStage, v: int) -> bool:
    """Whether on every line a later stage without v saves at least what v's nets may newly cost there."""
    for other in range(g.remaining.shape[0]):
        if g.remaining[other] == 0 or b.can[other, v] == 0:
            continue
        for line in range(b.work.shape[2]):
            more = 0.0
            for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
                e = a.item_nets[p]
                placed = x.net_in[e] + x.net_here[e]
                if a.net_ptr[e + 1] - a.net_ptr[e] - placed < 2:
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
def _crosses_freely(a: Arrays, b: Lines, x: Scratch, v: int) -> bool:
    """Whether nets of v that newly cross between the groups, or cross the other way, cost the groups nothing."""
    for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
        e = a.item_nets[p]
        placed = x.net_in[e] + x.net_here[e]
        if a.net_ptr[e + 1] - a.net_ptr[e] - placed < 2 or (placed > 0 and b.maker[e] != v):
            continue
        for line in range(b.work.shape[2]):
            for group in range(2):
                if placed == 0 and max(b.group_in[group, e, line], b.group_out[group, e, line]) > 0:
                    return False
                if b.group_in[group, e, line] != b.group_out[group, e, line]:
                    return False
    return True


@inlined
def replaceable(
    a: Arrays,
    b: Lines,
    w: LineWeights,
    x: Scratch,
    y: LineScratch,
    question: LineQuestion,
    g: VariantStage,
    depth: int,
    v: int,
) -> bool:
    """Whether the stage with the ready item v is feasible and at least as good for all that follows."""
    if not _cheap_to_move(a, b, x, g, v):
        return False
    other_group = False
    for other in range(g.remaining.shape[0]):
        other_group = other_group or (g.remaining[other] > 0 and b.phase[other] != b.phase[g.kind])
    if other_group and question.cuts.shape[0] > 0:
        # The later device is in this group unless the group can end without v.
        if reaches(w, x, y, question, depth, g.rest, v):
            return False
    elif other_group and not _crosses_freely(a, b, x, v):
        return False
    lines = b.work.shape[2]
    for line in range(lines):
        y.trial[line] = y.value[depth, line] + b.work[g.kind, v, line]
    for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
        e = a.item_nets[p]
        inside = x.status[b.maker[e]] == CHOSEN
        for line in range(lines):
            if x.net_here[e] > 0:
                y.trial[line] -= b.cost_out[g.kind, e, line] if inside else b.cost_in[g.kind, e, line]
            if x.net_out[e] > 1:
                inner_maker = inside or b.maker[e] == v
                y.trial[line] += b.cost_out[g.kind, e, line] if inner_maker else b.cost_in[g.kind, e, line]
    held, space = x.saved[depth, MEM] + x.memory[v], max(x.saved[depth, SPACE], a.workspace[v])
    sync = x.saved[depth, SYNC] + b.sync[v]
    for p in range(a.item_cover_ptr[v], a.item_cover_ptr[v + 1]):
        if x.cover_here[a.item_covers[p]] == 0:
            held += x.cover_memory[a.item_covers[p]]
            sync += b.cover_sync[a.item_covers[p]]
    if not within(b, g, y.trial, held + space, sync, question.inner):
        return False
    if not b.peak:
        return True
    x.status[v] = CHOSEN
    fits = orderable(b, x, y, g, y.trial, held, sync, question.inner, True)
    x.status[v] = EXCLUDED
    return fits
