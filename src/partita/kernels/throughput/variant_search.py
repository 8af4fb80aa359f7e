"""Is there an acyclic split of a variant with every line of every load within its limit?

Breadth-first over ideals, one stage per step, as ``kernels.throughput.search`` for the plain problem, with loads of
several lines, replicas, groups and reloading. The pruning rules are stated and proved in
``partita.problems.throughput.solvers.variant_decision``.
"""

from __future__ import annotations

import numpy as np

from partita.kernels.compiled import compiled
from partita.kernels.throughput.arrays import Arrays, Floats, Longs, Words
from partita.kernels.throughput.variant_arrays import Lines, VariantScratch, VariantStore, VariantWeights
from partita.kernels.throughput.variant_ideals import (
    CURSOR,
    FOUND,
    GROW,
    LAST_KIND,
    LAST_PARENT,
    LAST_REPLICAS,
    LEVEL,
    LIMIT,
    NODES,
    REFUTED,
    STATES,
    STOPPED,
    cut_fits,
    dominated,
    load_ideal,
    store_ideal,
)
from partita.kernels.throughput.variant_stage import (
    AWAY,
    CHOSEN,
    ENTER,
    EXCLUDED,
    LISTED,
    MEM,
    OPEN,
    SPACE,
    SYNC,
    orderable,
    pay,
    reaches,
    replaceable,
    room,
    within,
)
from partita.kernels.throughput.working_memory import PeakArrays, PeakScratch

__all__ = ["FOUND", "GROW", "LIMIT", "REFUTED", "STOPPED", "search_variant"]


@compiled
def _expand(
    a: Arrays,
    b: Lines,
    w: VariantWeights,
    s: VariantStore,
    x: VariantScratch,
    peaks: PeakArrays,
    y: PeakScratch,
    limits: Floats,
    inner: Floats,
    use_dominance: bool,
    cuts: Words,
    state: int,
    kind: int,
    replicas: int,
    inside: int,
    remaining: Longs,
    level: int,
    code_after: int,
    used_after: int,
    digits: Longs,
    phases: Longs,
    ideal_hash: np.uint64,
    node_limit: int,
    stop: Longs,
    halt: Longs,
) -> int:
    """Emit every stage of ``replicas`` devices of a kind worth keeping after the current ideal."""
    n, lines, rules = x.in_ideal.shape[0], b.work.shape[2], w.choice.shape[0]
    status, net_here, net_out, net_in = x.status, x.net_here, x.net_out, x.net_in
    recompute, backwards = b.switches[1] != 0, b.switches[2] != 0
    memory = a.memory[kind]
    to_end = level + replicas if backwards else 1
    flights = b.flights[replicas, to_end]
    share = 1 if recompute else flights
    one = np.uint64(1)
    rest = 0
    for k in range(remaining.shape[0]):
        rest += remaining[k] * w.radix[k]
    for v in range(n):
        x.memory[v] = a.fixed[v] + share * a.active[v]
    for c in range(a.cover_fixed.shape[0]):
        x.cover_memory[c] = a.cover_fixed[c] + share * a.cover_active[c]
        x.cover_here[c] = 0

    # What the stage can reach: items whose longest chain of work fits.
    count = 0
    for v in range(n):
        x.missing_now[v] = x.missing[v]
        x.head[v] = 0.0
        if x.in_ideal[v] == 0 and x.missing[v] == 0:
            x.reach[count] = v
            count += 1
    ready, kept = count, 0
    for i in range(ready):
        v = x.reach[i]
        if b.can[kind, v] != 0 and b.work[kind, v, 0] <= replicas * limits[0]:
            x.head[v] = b.work[kind, v, 0]
            x.reach[kept] = v
            kept += 1
    ready, count, i = kept, kept, 0
    while i < count:
        v = x.reach[i]
        i += 1
        status[v] = OPEN
        for p in range(a.succ_ptr[v], a.succ_ptr[v + 1]):
            u = a.succ[p]
            x.missing_now[u] -= 1
            x.head[u] = max(x.head[u], x.head[v])
            if x.missing_now[u] == 0:
                x.head[u] += b.work[kind, u, 0]
                if b.can[kind, u] != 0 and x.head[u] <= replicas * limits[0]:
                    x.reach[count] = u
                    count += 1
    for e in range(net_out.shape[0]):
        net_out[e] = a.net_ptr[e + 1] - a.net_ptr[e]
        net_here[e] = 0
    for i in range(count):
        v = x.reach[i]
        for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
            net_out[a.item_nets[p]] -= 1
    for c in range(rules):
        row = w.choice[c, rest]
        x.row[c] = row
        total, reachable, cross = 0.0, 0.0, 0.0
        for v in range(n):
            if x.in_ideal[v] == 0:
                total += w.item[row, v]
        for i in range(count):
            reachable += w.item[row, x.reach[i]]
        for e in range(net_out.shape[0]):
            if net_in[e] > 0 and net_out[e] > net_in[e]:
                cross += w.net[row, e]
        x.rest[c], x.reachable[c], x.lost[0, c], x.cross[0, c] = total, reachable, 0.0, cross

    outcome = REFUTED
    x.value[0, :] = 0.0
    x.held[0, :] = 0.0
    queue_len, mark_len, p0, here = ready, 0, 0, 0
    for i in range(ready):
        x.queue[i] = x.reach[i]
    code = ideal_hash
    down = room(w, x, 0, rest)
    nodes = s.counters[NODES]
    while True:
        nodes += 1
        if (nodes & 1023) == 0 and (stop[0] != 0 or halt[0] != 0 or nodes >= node_limit):
            outcome = LIMIT if stop[0] == 0 and halt[0] == 0 else STOPPED
            break
        if down and p0 == queue_len:
            # Everything is decided.
            need = x.held[p0, MEM] + x.held[p0, SPACE] + (flights * x.held[p0, ENTER] if recompute else 0.0)
            keep = here > 0 and within(b, kind, replicas, x.value[p0], need, x.held[p0, SYNC], memory, limits)
            if keep and b.switches[5] != 0:
                held, sync = x.held[p0, MEM], x.held[p0, SYNC]
                keep = orderable(b, x, peaks, y, kind, replicas, count, x.value[p0], held, sync, memory, limits, False)
            if keep and here + inside == n:
                s.counters[LAST_PARENT] = state
                s.counters[LAST_KIND] = kind
                s.counters[LAST_REPLICAS] = replicas
                outcome = FOUND
                break
            if keep and b.phase[kind] == 0 and cuts.shape[0] > 0:
                keep = reaches(w, x, cuts, p0, rest, -1)
            if keep and use_dominance:
                for i in range(queue_len):
                    if x.decision[i] == 0 and replaceable(
                        a,
                        b,
                        w,
                        x,
                        peaks,
                        y,
                        kind,
                        replicas,
                        count,
                        p0,
                        x.queue[i],
                        remaining,
                        memory,
                        inner,
                        cuts,
                        rest,
                    ):
                        keep = False
                        break
            if keep:
                found = -1
                if s.counters[STATES] < s.state_ideal.shape[0]:
                    found = store_ideal(s, x, code)
                if found < 0:
                    outcome = GROW
                    break
                if not dominated(s, digits, phases, found, code_after, used_after, False):
                    s.fewest[found, code_after] = used_after
                    new = s.counters[STATES]
                    s.state_ideal[new] = found
                    s.state_code[new] = code_after
                    s.state_parent[new] = state
                    s.state_kind[new] = kind
                    s.state_replicas[new] = replicas
                    s.state_next[new] = s.heads[level + replicas]
                    s.heads[level + replicas] = new
                    s.counters[STATES] = new + 1
            down = False
        if not down:
            # Go back to the last decision; an inclusion turns into an exclusion.
            if p0 == 0:
                break
            p0 -= 1
            v = x.queue[p0]
            if x.decision[p0] == 0:
                start = x.mark_end[p0]
                for i in range(start, mark_len):
                    u = x.marks[i]
                    status[u] = OPEN
                    for p in range(a.item_net_ptr[u], a.item_net_ptr[u + 1]):
                        net_out[a.item_nets[p]] -= 1
                mark_len = start
                continue
            for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
                net_here[a.item_nets[p]] -= 1
            for p in range(a.succ_ptr[v], a.succ_ptr[v + 1]):
                x.missing[a.succ[p]] += 1
            for p in range(a.item_cover_ptr[v], a.item_cover_ptr[v + 1]):
                x.cover_here[a.item_covers[p]] -= 1
            status[v] = OPEN
            x.words[v // 64] ^= one << np.uint64(v % 64)
            code ^= x.zobrist[v]
            here -= 1
            queue_len = x.queue_end[p0]
        else:
            v = x.queue[p0]
            # Include v.
            after = p0 + 1
            for line in range(lines):
                x.value[after, line] = x.value[p0, line] + b.work[kind, v, line]
            for c in range(rules):
                x.lost[after, c] = x.lost[p0, c]
                x.cross[after, c] = x.cross[p0, c]
            enter, mem = x.held[p0, ENTER], x.held[p0, MEM] + x.memory[v]
            space, sync = max(x.held[p0, SPACE], a.workspace[v]), x.held[p0, SYNC] + b.sync[v]
            for p in range(a.item_cover_ptr[v], a.item_cover_ptr[v + 1]):
                t = a.item_covers[p]
                if x.cover_here[t] == 0:
                    mem += x.cover_memory[t]
                    sync += b.cover_sync[t]
                x.cover_here[t] += 1
            for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
                pay(b, x, kind, a.item_nets[p], after, -1.0)
            status[v] = CHOSEN
            for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
                e = a.item_nets[p]
                mine = net_here[e]
                net_here[e] = mine + 1
                pay(b, x, kind, e, after, 1.0)
                if mine == 0 and net_in[e] == 0 and net_out[e] > 0:
                    for c in range(rules):
                        x.cross[after, c] += w.net[x.row[c], e]
                if recompute and a.net_entering[e] > 0:
                    source = a.net_source[e]
                    if backwards:
                        if source == v:
                            if mine > 0:
                                enter -= a.net_entering[e]
                        elif mine == 0:
                            enter += a.net_entering[e]
                    elif mine == 0 and x.in_ideal[source] != 0:
                        enter += a.net_entering[e]
            x.held[after, MEM], x.held[after, SPACE] = mem, space
            x.held[after, ENTER], x.held[after, SYNC] = enter, sync
            # What enters may leave again when the search runs backwards: only then it is not certain.
            need = mem + space + (flights * enter if recompute and not backwards else 0.0)
            fits = within(b, kind, replicas, x.value[after], need, sync, memory, limits) and room(w, x, after, rest)
            if fits:
                x.decision[p0] = 1
                x.queue_end[p0] = queue_len
                for p in range(a.succ_ptr[v], a.succ_ptr[v + 1]):
                    u = a.succ[p]
                    x.missing[u] -= 1
                    if x.missing[u] == 0 and status[u] == OPEN:
                        x.queue[queue_len] = u
                        queue_len += 1
                x.words[v // 64] ^= one << np.uint64(v % 64)
                code ^= x.zobrist[v]
                here += 1
                p0 = after
                continue
            status[v] = OPEN
            for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
                net_here[a.item_nets[p]] -= 1
            for p in range(a.item_cover_ptr[v], a.item_cover_ptr[v + 1]):
                x.cover_here[a.item_covers[p]] -= 1
        # Exclude v with all that depends on it.
        x.decision[p0] = 0
        x.mark_end[p0] = mark_len
        after = p0 + 1
        x.value[after] = x.value[p0]
        x.held[after] = x.held[p0]
        x.lost[after] = x.lost[p0]
        x.cross[after] = x.cross[p0]
        i = mark_len
        x.marks[mark_len] = v
        mark_len += 1
        while i < mark_len:
            u = x.marks[i]
            i += 1
            for c in range(rules):
                x.lost[after, c] += w.item[x.row[c], u]
            for p in range(a.item_net_ptr[u], a.item_net_ptr[u + 1]):
                pay(b, x, kind, a.item_nets[p], after, -1.0)
            status[u] = EXCLUDED
            for p in range(a.item_net_ptr[u], a.item_net_ptr[u + 1]):
                e = a.item_nets[p]
                net_out[e] += 1
                pay(b, x, kind, e, after, 1.0)
                if net_out[e] == net_in[e] + 1 and net_in[e] + net_here[e] > 0:
                    for c in range(rules):
                        x.cross[after, c] += w.net[x.row[c], e]
            for p in range(a.succ_ptr[u], a.succ_ptr[u + 1]):
                t = a.succ[p]
                if status[t] == OPEN:
                    status[t] = LISTED
                    x.marks[mark_len] = t
                    mark_len += 1
        need = x.held[after, MEM] + x.held[after, SPACE]
        down = within(b, kind, replicas, x.value[after], need, x.held[after, SYNC], memory, limits)
        down = down and room(w, x, after, rest)
        p0 = after
    s.counters[NODES] = nodes
    for i in range(count):
        status[x.reach[i]] = AWAY
    return outcome


@compiled
def search_variant(
    a: Arrays,
    b: Lines,
    w: VariantWeights,
    s: VariantStore,
    x: VariantScratch,
    peaks: PeakArrays,
    y: PeakScratch,
    limits: Floats,
    inner: Floats,
    use_dominance: bool,
    cuts: Words,
    stride: Longs,
    digits: Longs,
    digit_sum: Longs,
    phases: Longs,
    node_limit: int,
    stop: Longs,
    halt: Longs,
) -> int:
    """Continue the search; see the module. Start with an empty store: state 0 at level 0, ideal 0, the empty one.

    ``limits`` has one entry per line and one for synchronisation; ``phases[code]`` is 1 where devices of the second
    group are used; ``cuts`` are all ideals where the first group may end, or none if they are not known. Returns FOUND
    (``LAST_*`` give the final stage), REFUTED, GROW (enlarge the store and call again), LIMIT (nodes used up; call
    again to continue) or STOPPED.
    """
    kinds = a.devices.shape[0]
    remaining = np.zeros(kinds, np.int64)
    while True:
        cursor = s.counters[CURSOR]
        if cursor < 0:
            level = s.counters[LEVEL]
            while level < s.heads.shape[0] and s.heads[level] < 0:
                level += 1
            s.counters[LEVEL] = level
            if level == s.heads.shape[0]:
                return REFUTED
            cursor = s.heads[level]
            s.heads[level] = s.state_next[cursor]
            s.counters[CURSOR] = cursor
        level = s.counters[LEVEL]
        ideal, code = s.state_ideal[cursor], s.state_code[cursor]
        used = level - digit_sum[code]
        if s.fewest[ideal, code] < used or dominated(s, digits, phases, ideal, code, used, True):
            s.counters[CURSOR] = -1
            continue
        inside = load_ideal(a, s, x, ideal)
        cross_groups = b.switches[4] != 0 and phases[code] == 0 and cut_fits(a, b, x, limits)
        for kind in range(kinds):
            if b.switches[4] != 0 and b.phase[kind] != phases[code] and not (b.phase[kind] == 1 and cross_groups):
                continue
            mine = used if kind == 0 else digits[code, kind]
            for replicas in range(1, min(b.replicas[kind], a.devices[kind] - mine) + 1):
                for k in range(kinds):
                    remaining[k] = a.devices[k] - (used if k == 0 else digits[code, k])
                remaining[kind] -= replicas
                if b.switches[4] != 0 and b.phase[kind] == 1:
                    for k in range(kinds):
                        if b.phase[k] == 0:
                            remaining[k] = 0
                status = _expand(
                    a,
                    b,
                    w,
                    s,
                    x,
                    peaks,
                    y,
                    limits,
                    inner,
                    use_dominance,
                    cuts,
                    cursor,
                    kind,
                    replicas,
                    inside,
                    remaining,
                    level,
                    code if kind == 0 else code + replicas * stride[kind],
                    used + replicas if kind == 0 else used,
                    digits,
                    phases,
                    s.ideal_hash[ideal],
                    node_limit,
                    stop,
                    halt,
                )
                if status != REFUTED:
                    return status
        s.counters[CURSOR] = -1
