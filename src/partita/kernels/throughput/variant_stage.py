"""What a stage of a variant costs while it is built: certain lines, limits, what must still fit, and dominance."""

from __future__ import annotations

import numpy as np

from partita.kernels.compiled import compiled
from partita.kernels.throughput.arrays import Arrays, Floats, Longs, Words
from partita.kernels.throughput.variant_arrays import Lines, VariantScratch, VariantWeights
from partita.kernels.throughput.working_memory import FITS, OVER, PeakArrays, PeakScratch, fit

__all__ = ["orderable", "pay", "reaches", "replaceable", "room", "within"]

#: Status of an item during an expansion: out of reach (or in the ideal), open, in the stage, excluded, about to be.
AWAY, OPEN, CHOSEN, EXCLUDED, LISTED = 0, 1, 2, 3, 4

#: States tried when the order of a stage is searched for, beside two for each of its operators.
FIT_NODES = 400

#: Columns of ``held``: memory, workspace, entering bytes, bytes to synchronise.
MEM, SPACE, ENTER, SYNC = 0, 1, 2, 3


@compiled
def pay(b: Lines, x: VariantScratch, kind: int, e: int, place: int, sign: float) -> None:
    """Add (or take away) what net e surely costs the stage being built."""
    if x.net_here[e] == 0 or x.net_out[e] == 0:
        return
    status = x.status[b.maker[e]]
    lines = x.value.shape[1]
    if status == CHOSEN:
        for line in range(lines):
            x.value[place, line] += sign * b.cost_out[kind, e, line]
    elif status in (OPEN, LISTED):
        for line in range(lines):
            x.value[place, line] += sign * min(b.cost_in[kind, e, line], b.cost_out[kind, e, line])
    else:
        for line in range(lines):
            x.value[place, line] += sign * b.cost_in[kind, e, line]


@compiled
def within(
    b: Lines, kind: int, replicas: int, values: Floats, need: float, sync: float, memory: float, limits: Floats
) -> bool:
    """Whether lines, memory and synchronisation of a stage respect the limits (the last one is of synchronisation)."""
    over = 0.0
    if need > memory:
        if b.switches[0] != 0:
            return False
        over = (need - memory) * b.reload_time[kind]
    together = (replicas - 1) * sync * b.sync_time[kind]
    lines = values.shape[0]
    if b.switches[3] != 0 and together > replicas * limits[lines]:
        return False
    for line in range(lines):
        value = values[line] + b.with_reload[line] * over + b.with_sync[line] * together
        if value > replicas * limits[line]:
            return False
    return True


@compiled
def orderable(
    b: Lines,
    x: VariantScratch,
    k: PeakArrays,
    y: PeakScratch,
    kind: int,
    replicas: int,
    reached: int,
    values: Floats,
    held: float,
    sync: float,
    memory: float,
    limits: Floats,
    strict: bool,
) -> bool:
    """Whether the chosen items of ``x.reach`` can run in an order whose peak respects the limits.

    Undecided counts as true, or as false if ``strict``; so does what is within rounding.
    """
    if b.reload_time[kind] == 0.0 or memory == np.inf:
        return True
    over = np.inf
    together = (replicas - 1) * sync * b.sync_time[kind]
    for line in range(values.shape[0]):
        if b.with_reload[line] > 0.0:
            left = replicas * limits[line] - values[line] - b.with_sync[line] * together
            over = min(over, left / b.with_reload[line])
    if over == np.inf:
        return True
    most = memory + over / b.reload_time[kind] - held
    margin = 1e-11 * (memory + abs(most) + held)
    most = most - margin if strict else most + margin
    count = 0
    for i in range(reached):
        v = x.reach[i]
        if x.status[v] == CHOSEN:
            for p in range(k.item_ptr[v], k.item_ptr[v + 1]):
                y.members[count] = k.item_ops[p]
                count += 1
    answer = fit(k, y, count, most, FIT_NODES + 2 * count)
    return answer == FITS if strict else answer != OVER


@compiled
def room(w: VariantWeights, x: VariantScratch, place: int, rest: int) -> bool:
    """Whether what surely remains fits on the devices that remain."""
    for c in range(w.choice.shape[0]):
        weight = x.rest[c] - (x.reachable[c] - x.lost[place, c]) + x.cross[place, c]
        if weight > w.budget[c, rest]:
            return False
    return True


@compiled
def reaches(w: VariantWeights, x: VariantScratch, cuts: Words, place: int, rest: int, but: int) -> bool:
    """Whether the group filled first may still end where one of ``cuts`` does, without the item ``but``.

    What the stage built leaves must fit on the devices left in this group, and what lies beyond the cut.
    """
    for c in range(cuts.shape[0]):
        if but >= 0 and (cuts[c, but // 64] >> np.uint64(but % 64)) & np.uint64(1) != 0:
            continue
        possible = True
        for i in range(cuts.shape[1]):
            if x.words[i] & ~cuts[c, i] != 0:
                possible = False
                break
        if not possible:
            continue
        for rule in range(w.choice.shape[0]):
            weight = x.rest[rule] - (x.reachable[rule] - x.lost[place, rule])
            if weight > w.first[rule, rest] + w.beyond[x.row[rule], c]:
                possible = False
                break
        if possible:
            return True
    return False


@compiled
def replaceable(
    a: Arrays,
    b: Lines,
    w: VariantWeights,
    x: VariantScratch,
    k: PeakArrays,
    y: PeakScratch,
    kind: int,
    replicas: int,
    reached: int,
    place: int,
    v: int,
    remaining: Longs,
    memory: float,
    inner: Floats,
    cuts: Words,
    rest: int,
) -> bool:
    """Whether the stage with the ready item v is feasible and at least as good for all that follows."""
    lines = b.work.shape[2]
    # What a later device without v pays more on a line must be no more than v's work there.
    other_group = False
    for other in range(remaining.shape[0]):
        if remaining[other] == 0:
            continue
        other_group = other_group or b.phase[other] != b.phase[kind]
        if b.can[other, v] == 0:
            continue
        for line in range(lines):
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
    if other_group and cuts.shape[0] > 0:
        # The later device is in this group unless the group can end without v.
        if reaches(w, x, cuts, place, rest, v):
            return False
    elif other_group:
        for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
            e = a.item_nets[p]
            placed = x.net_in[e] + x.net_here[e]
            if a.net_ptr[e + 1] - a.net_ptr[e] - placed < 2 or (placed > 0 and b.maker[e] != v):
                continue
            for line in range(lines):
                for g in range(2):
                    if placed == 0 and max(b.group_in[g, e, line], b.group_out[g, e, line]) > 0:
                        return False
                    if b.group_in[g, e, line] != b.group_out[g, e, line]:
                        return False
    for line in range(lines):
        x.trial[line] = x.value[place, line] + b.work[kind, v, line]
    for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
        e = a.item_nets[p]
        inside = x.status[b.maker[e]] == CHOSEN
        for line in range(lines):
            if x.net_here[e] > 0:
                x.trial[line] -= b.cost_out[kind, e, line] if inside else b.cost_in[kind, e, line]
            if x.net_out[e] > 1:
                inner_maker = inside or b.maker[e] == v
                x.trial[line] += b.cost_out[kind, e, line] if inner_maker else b.cost_in[kind, e, line]
    need = x.held[place, MEM] + x.memory[v] + max(x.held[place, SPACE], a.workspace[v])
    sync = x.held[place, SYNC] + b.sync[v]
    for p in range(a.item_cover_ptr[v], a.item_cover_ptr[v + 1]):
        if x.cover_here[a.item_covers[p]] == 0:
            need += x.cover_memory[a.item_covers[p]]
            sync += b.cover_sync[a.item_covers[p]]
    if not within(b, kind, replicas, x.trial, need, sync, memory, inner):
        return False
    if b.switches[5] == 0:
        return True
    x.status[v] = CHOSEN
    held = need - max(x.held[place, SPACE], a.workspace[v])
    fits = orderable(b, x, k, y, kind, replicas, reached, x.trial, held, sync, memory, inner, True)
    x.status[v] = EXCLUDED
    return fits
