"""Is there an acyclic split of a variant with every line of every load within its limit?

Breadth-first over ideals, one stage per step, as ``kernels.throughput.search`` for the plain problem, with loads of
several lines, replicas, groups and reloading. The pruning rules are stated and proved in
``partita.problems.throughput.solvers.variant_decision``.

The two searches share the store, the walk between ideals and the decisions, and stay two: the plain one knows rules
that hold for it alone (*Exclusion*, sums over what follows and precedes an item), keeps its few numbers in registers
instead of in arrays of lines, and takes states from a queue instead of from lists by devices in use.
"""

from __future__ import annotations

import numpy as np

from partita.kernels.compiled import allocating_nothing, inlined
from partita.kernels.throughput.arrays import Arrays, Codes, Lines, Longs
from partita.kernels.throughput.decisions import (
    AWAY,
    CHOSEN,
    EXCLUDED,
    LISTED,
    OPEN,
    add_item,
    copy_row,
    entering,
    keep_state,
    open_nets,
    reach_items,
    remaining_devices,
    return_items,
    take_item_back,
)
from partita.kernels.throughput.group_cuts import cut_fits
from partita.kernels.throughput.ideals import clear, is_known_better, move_to
from partita.kernels.throughput.search_state import (
    CURSOR,
    FOUND,
    GROW,
    INSIDE,
    LAST_KIND,
    LAST_PARENT,
    LAST_REPLICAS,
    LEVEL,
    LIMIT,
    NODES,
    REFUTED,
    STAMP,
    STOPPED,
    VALID,
    LineQuestion,
    LineScratch,
    LineWeights,
    Scratch,
    Store,
    Tally,
    Until,
)
from partita.kernels.throughput.variant_stage import (
    ENTER,
    MEM,
    SPACE,
    SYNC,
    VariantStage,
    orderable,
    pay,
    reaches,
    replaceable,
    room,
    within,
)


@allocating_nothing
def _start_stage(
    a: Arrays,
    b: Lines,
    w: LineWeights,
    s: Store,
    x: Scratch,
    y: LineScratch,
    question: LineQuestion,
    state: int,
    kind: int,
    replicas: int,
    code_after: int,
    used_after: int,
    remaining: Longs,
) -> VariantStage:
    """What a stage after the current ideal can hold, and the numbers of the empty one at depth 0."""
    flights = b.flights[replicas, s.counters[LEVEL] + replicas if a.backwards else 1]
    share = 1 if a.recompute else flights
    n, m = x.in_ideal.shape[0], x.net_in.shape[0]
    rest = 0
    for k in range(remaining.shape[0]):
        rest += remaining[k] * w.radix[k]
    for v in range(n):
        x.memory[v] = a.fixed[v] + share * a.active[v]
    for c in range(a.cover_fixed.shape[0]):
        x.cover_memory[c] = a.cover_fixed[c] + share * a.cover_active[c]
    # Nothing bounds what lies before an item.
    most = replicas * question.limits[0]
    ready, reached, top = reach_items(a, s, x, b.chain[kind], most, w.item[:0], x.most_before)
    open_nets(a, s, x, reached)
    stamp = s.counters[STAMP]
    for c in range(w.choice.shape[0]):
        row = w.choice[c, rest]
        total, reachable, cross = 0.0, 0.0, 0.0
        for v in range(n):
            if x.in_ideal[v] == 0:
                total += w.item[row, v]
        for i in range(reached):
            reachable += w.item[row, x.reach[i]]
        for e in range(m):
            if x.net_in[e] > 0:
                out = x.net_out[e] if x.stamp_net[e] == stamp else a.net_ptr[e + 1] - a.net_ptr[e]
                if out > x.net_in[e]:
                    cross += w.net[row, e]
        y.row[c], y.rest[c], y.reachable[c], y.lost[0, c], y.cross[0, c] = row, total, reachable, 0.0, cross
    y.value[0, :] = 0.0
    x.saved[0, :] = 0.0
    memory = a.memory[kind]
    return VariantStage(
        state, kind, replicas, code_after, used_after, rest, remaining, flights, memory, ready, reached, top
    )


@inlined
def _include(
    a: Arrays,
    b: Lines,
    w: LineWeights,
    x: Scratch,
    y: LineScratch,
    question: LineQuestion,
    g: VariantStage,
    v: int,
    depth: int,
) -> bool:
    """The numbers of the stage with v at the next depth; whether it may be kept. If so, v and its pins are in it."""
    after, kind = depth + 1, g.kind
    for line in range(y.value.shape[1]):
        y.value[after, line] = y.value[depth, line] + b.work[kind, v, line]
    copy_row(y.lost, depth)
    copy_row(y.cross, depth)
    mem, space = x.saved[depth, MEM] + x.memory[v], max(x.saved[depth, SPACE], a.workspace[v])
    enter, sync = x.saved[depth, ENTER], x.saved[depth, SYNC] + b.sync[v]
    for p in range(a.item_cover_ptr[v], a.item_cover_ptr[v + 1]):
        c = a.item_covers[p]
        if x.cover_here[c] == 0:
            mem += x.cover_memory[c]
            sync += b.cover_sync[c]
    for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
        pay(b, x, y, kind, a.item_nets[p], after, -1.0)
    x.status[v] = CHOSEN
    for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
        e = a.item_nets[p]
        mine = x.net_here[e]
        x.net_here[e] = mine + 1
        pay(b, x, y, kind, e, after, 1.0)
        if mine == 0 and x.net_in[e] == 0 and x.net_out[e] > 0:
            for c in range(y.row.shape[0]):
                y.cross[after, c] += w.net[y.row[c], e]
        if a.recompute:
            enter += entering(a, x, e, v, mine)
    x.saved[after, MEM], x.saved[after, SPACE] = mem, space
    x.saved[after, ENTER], x.saved[after, SYNC] = enter, sync
    # What enters may leave again when the search runs backwards: only then it is not certain.
    need = mem + space
    if a.recompute and not a.backwards:
        need += g.flights * enter
    if within(b, g, y.value[after], need, sync, question.limits) and room(w, y, after, g.rest):
        return True
    x.status[v] = OPEN
    for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
        x.net_here[a.item_nets[p]] -= 1
    return False


@inlined
def _exclude(
    a: Arrays,
    b: Lines,
    w: LineWeights,
    x: Scratch,
    y: LineScratch,
    question: LineQuestion,
    g: VariantStage,
    v: int,
    depth: int,
    mark_len: int,
) -> tuple[int, bool]:
    """Leave v out with all that depends on it; how many items are marked now, and whether the stage may be kept."""
    after = depth + 1
    for rows in (y.value, x.saved, y.lost, y.cross):
        copy_row(rows, depth)
    i = mark_len
    x.marks[mark_len] = v
    mark_len += 1
    while i < mark_len:
        u = x.marks[i]
        i += 1
        for c in range(y.row.shape[0]):
            y.lost[after, c] += w.item[y.row[c], u]
        for p in range(a.item_net_ptr[u], a.item_net_ptr[u + 1]):
            pay(b, x, y, g.kind, a.item_nets[p], after, -1.0)
        x.status[u] = EXCLUDED
        for p in range(a.item_net_ptr[u], a.item_net_ptr[u + 1]):
            e = a.item_nets[p]
            x.net_out[e] += 1
            pay(b, x, y, g.kind, e, after, 1.0)
            if x.net_out[e] == x.net_in[e] + 1 and x.net_in[e] + x.net_here[e] > 0:
                for c in range(y.row.shape[0]):
                    y.cross[after, c] += w.net[y.row[c], e]
        for p in range(a.succ_ptr[u], a.succ_ptr[u + 1]):
            follower = a.succ[p]
            if x.status[follower] == OPEN:
                x.status[follower] = LISTED
                x.marks[mark_len] = follower
                mark_len += 1
    need = x.saved[after, MEM] + x.saved[after, SPACE]
    fits = within(b, g, y.value[after], need, x.saved[after, SYNC], question.limits)
    return mark_len, fits and room(w, y, after, g.rest)


@inlined
def _feasible(
    a: Arrays, b: Lines, x: Scratch, y: LineScratch, question: LineQuestion, g: VariantStage, depth: int
) -> bool:
    """Whether a finished stage respects the limits."""
    held, sync = x.saved[depth, MEM], x.saved[depth, SYNC]
    need = held + x.saved[depth, SPACE]
    if a.recompute:
        need += g.flights * x.saved[depth, ENTER]
    if not within(b, g, y.value[depth], need, sync, question.limits):
        return False
    return not b.peak or orderable(b, x, y, g, y.value[depth], held, sync, question.limits, False)


@inlined
def _worth_keeping(
    a: Arrays,
    b: Lines,
    w: LineWeights,
    x: Scratch,
    y: LineScratch,
    question: LineQuestion,
    g: VariantStage,
    depth: int,
    queue_len: int,
) -> bool:
    """Whether the first group can still end after a finished stage, and no ready item outside it can join it."""
    if b.phase[g.kind] == 0 and question.cuts.shape[0] > 0 and not reaches(w, x, y, question, depth, g.rest, -1):
        return False
    if question.dominance:
        for i in range(queue_len):
            if x.decision[i] == 0 and replaceable(a, b, w, x, y, question, g, depth, x.queue[i]):
                return False
    return True


@allocating_nothing
def _expand(
    a: Arrays,
    b: Lines,
    w: LineWeights,
    s: Store,
    x: Scratch,
    y: LineScratch,
    codes: Codes,
    question: LineQuestion,
    until: Until,
    g: VariantStage,
    code: np.uint64,
) -> int:
    """Emit every stage worth keeping after the current ideal, whose hash is ``code``; an answer if that ends early."""
    items_left = x.in_ideal.shape[0] - x.places[INSIDE]
    queue_len, mark_len, depth, here = g.ready, 0, 0, 0
    for i in range(g.ready):
        x.queue[i] = x.reach[i]
    outcome, nodes = REFUTED, s.counters[NODES]
    down = room(w, y, 0, g.rest)
    while True:
        nodes += 1
        if (nodes & 1023) == 0 and (until.stop[0] != 0 or until.halt[0] != 0 or nodes >= until.node_limit):
            outcome = LIMIT if until.stop[0] == 0 and until.halt[0] == 0 else STOPPED
            break
        if down and depth == queue_len:
            # Everything is decided.
            if here > 0 and _feasible(a, b, x, y, question, g, depth):
                if here == items_left:
                    s.counters[LAST_PARENT], s.counters[LAST_KIND] = g.state, g.kind
                    s.counters[LAST_REPLICAS] = g.replicas
                    outcome = FOUND
                    break
                if _worth_keeping(a, b, w, x, y, question, g, depth, queue_len) and not keep_state(
                    s, x, codes, code, g.top, g.state, g.kind, g.replicas, g.code_after, g.used_after
                ):
                    outcome = GROW
                    break
            down = False
        if not down:
            # Go back to the last decision; an inclusion turns into an exclusion.
            if depth == 0:
                break
            depth -= 1
            v = x.queue[depth]
            if x.decision[depth] == 0:
                return_items(a, x, x.mark_end[depth], mark_len)
                mark_len = x.mark_end[depth]
                continue
            take_item_back(a, x, v)
            code ^= x.zobrist[v]
            here -= 1
            queue_len = x.queue_end[depth]
        else:
            v = x.queue[depth]
            if _include(a, b, w, x, y, question, g, v, depth):
                queue_len = add_item(a, x, v, depth, queue_len)
                code ^= x.zobrist[v]
                here += 1
                depth += 1
                continue
        # Exclude v with all that depends on it.
        x.decision[depth] = 0
        x.mark_end[depth] = mark_len
        mark_len, down = _exclude(a, b, w, x, y, question, g, v, depth, mark_len)
        depth += 1
    s.counters[NODES] = nodes
    if outcome == REFUTED:
        for i in range(g.reached):
            x.status[x.reach[i]] = AWAY
    else:
        s.counters[VALID] = 0
    return outcome


@inlined
def _next_state(s: Store) -> int:
    """The state to expand: the one begun, or the next of those with fewest devices in use; -1 if none is left."""
    if s.counters[CURSOR] < 0:
        level = s.counters[LEVEL]
        while level < s.heads.shape[0] and s.heads[level] < 0:
            level += 1
        s.counters[LEVEL] = level
        if level < s.heads.shape[0]:
            s.counters[CURSOR] = s.heads[level]
            s.heads[level] = s.state_next[s.heads[level]]
    return int(s.counters[CURSOR])


@allocating_nothing
def search_variant(
    a: Arrays,
    b: Lines,
    w: LineWeights,
    t: Tally,
    s: Store,
    x: Scratch,
    y: LineScratch,
    codes: Codes,
    question: LineQuestion,
    until: Until,
) -> int:
    """Continue the search; see the module. Start with an empty store: state 0 at level 0, ideal 0, the empty one.

    Nothing is summed in ``t``. Returns FOUND (``LAST_*`` give the final stage), REFUTED, GROW (enlarge the store and
    call again), LIMIT (nodes used up; call again to continue) or STOPPED.
    """
    if s.counters[VALID] == 0:
        clear(a, t, x)
        s.counters[VALID] = 1
    remaining = x.remaining
    while True:
        state = _next_state(s)
        if state < 0:
            return REFUTED
        ideal, code = s.state_ideal[state], s.state_code[state]
        used = s.counters[LEVEL] - codes.digit_sum[code]
        if is_known_better(s, codes, state, used):
            s.counters[CURSOR] = -1
            continue
        move_to(a, t, s, x, ideal)
        phase = codes.phases[code]
        crosses = b.grouped and phase == 0 and cut_fits(a, b, x, question.limits, y.trial)
        for kind in range(remaining.shape[0]):
            if b.grouped and b.phase[kind] != phase and not (b.phase[kind] == 1 and crosses):
                continue
            remaining_devices(a, codes, code, used, remaining)
            for replicas in range(1, min(b.replicas[kind], remaining[kind]) + 1):
                remaining_devices(a, codes, code, used, remaining)
                remaining[kind] -= replicas
                if b.grouped and b.phase[kind] == 1:
                    for k in range(remaining.shape[0]):
                        if b.phase[k] == 0:
                            remaining[k] = 0
                code_after = code + replicas * codes.stride[kind]
                used_after = used + (replicas if kind == 0 else 0)
                g = _start_stage(a, b, w, s, x, y, question, state, kind, replicas, code_after, used_after, remaining)
                outcome = _expand(a, b, w, s, x, y, codes, question, until, g, s.ideal_hash[ideal])
                if outcome != REFUTED:
                    return outcome
        s.counters[CURSOR] = -1
