"""Is there an acyclic split with every load at most T?  Breadth-first search over ideals, one stage per level.

A state is a pair (ideal, devices used); the stages that may follow an ideal are enumerated by deciding, in a fixed
order, for every ready item whether it joins the stage or stays outside together with all that depends on it. Source of
the plain dynamic program: Tarnawski et al., NeurIPS 2020, §5.1.1; the pruning rules are stated and proved in
``partita.problems.throughput.solvers.decision``.
"""

from __future__ import annotations

import numpy as np

from partita.kernels.compiled import compiled
from partita.kernels.throughput.arrays import Arrays, Floats, Longs
from partita.kernels.throughput.ideals import (
    CURSOR,
    LAST_KIND,
    LAST_PARENT,
    LEVEL,
    LEVEL_END,
    NODES,
    STAMP,
    STATES,
    STATES_EXPANDED,
    VALID,
    Scratch,
    Store,
    Weights,
    clear,
    move_to,
    store_ideal,
)

__all__ = ["FOUND", "GROW", "LIMIT", "REFUTED", "STOPPED", "search"]

REFUTED, FOUND, GROW, LIMIT, STOPPED = 0, 1, 2, 3, 4

#: Columns of the saved numbers of one decision.
WORK, COMM, OPEN, CROSS, LOST, LOST_WORK, MEM = range(7)
SPACE, ENTER, LOST_MEM, LEAST, LEAST_NEW, LEAST_MEM, LOST_NOW = range(7, 14)


@compiled
def _dominated(s: Store, digits: Longs, ideal: int, code: int, used: int, strictly: bool) -> bool:
    """Whether the ideal is known with no more devices of any kind (``strictly``: by another entry)."""
    for c in range(s.fewest.shape[1]):
        if s.fewest[ideal, c] > used or (strictly and c == code):
            continue
        lower = True
        for k in range(1, digits.shape[1]):
            if digits[c, k] > digits[code, k]:
                lower = False
                break
        if lower:
            return True
    return False


@compiled
def _expand(
    a: Arrays,
    w: Weights,
    s: Store,
    x: Scratch,
    target: float,
    cross_limit: Floats,
    use_dominance: bool,
    state: int,
    kind: int,
    remaining: Longs,
    code_after: int,
    used_after: int,
    digits: Longs,
    ideal_hash: np.uint64,
    node_limit: int,
    stop: Longs,
    halt: Longs,
) -> int:
    """Emit every stage of ``kind`` worth keeping after the current ideal. ``remaining`` counts devices after it."""
    # Local names: the inner loop must not look arrays up again.
    zobrist, words, in_ideal, missing = x.zobrist, x.words, x.in_ideal, x.missing
    net_in, status, stamp_item, stamp_net = x.net_in, x.status, x.stamp_item, x.stamp_net
    missing_now, head, reach, net_out = x.missing_now, x.head, x.reach, x.net_out
    net_here, cover_here, queue, decision = x.net_here, x.cover_here, x.queue, x.decision
    queue_end, mark_end, marks, saved = x.queue_end, x.mark_end, x.marks, x.saved
    memory_now, memory_next, cover_now = x.memory_now, x.memory_next, x.cover_now
    net_ptr, item_net_ptr, item_nets, succ_ptr = a.net_ptr, a.item_net_ptr, a.item_nets, a.succ_ptr
    succ, item_cover_ptr, item_covers, workspace = a.succ, a.item_cover_ptr, a.item_covers, a.workspace
    net_source, net_entering = a.net_source, a.net_entering
    all_work, all_cost = a.work, a.net_cost
    n = in_ideal.shape[0]
    limited, recompute, backwards = a.limits[0] != 0, a.limits[1] != 0, a.limits[2] != 0
    kinds = a.work.shape[0]
    rest = 0
    for k in range(kinds):
        rest += remaining[k] * w.radix[k]
    row = w.choice[rest]
    budget, capacity = w.budget[rest], w.capacity[rest]
    weight, net_weight = w.item[row], w.net[row]
    time, cost = a.work[kind], a.net_cost[kind]
    up_weight, up_work, down_work = w.up_item[row], w.up_work[kind], w.down_work[kind]
    # An item is out of reach if the work before it, of which at most done is in the ideal, is too much.
    work_left = w.all_work[kind] - x.done_work[kind]
    furthest = target + x.done_work[kind] * (1.0 + 1e-9)
    memory = a.memory[kind]
    placed = s.counters[LEVEL]
    flights = a.in_flight[placed + 1]
    s.counters[STAMP] += 1
    stamp = s.counters[STAMP]
    one = np.uint64(1)
    # Dominance uses a load that is smaller by more than rounding, so that what replaces a stage is surely kept.
    inner = target * (1.0 - 1e-12)

    down_bytes, most_bytes = w.down_work[kinds], memory + x.done_work[kinds] * (1.0 + 1e-9)

    # What one stage can reach: items whose longest chain of work fits.
    reach_count, pot_weight, pot_work, pot_mem, pot_next, pot_space = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    top = x.integers[3]
    for i in range(x.integers[0]):
        v = x.ready_items[i]
        j = i
        # Insertion sort: the order of decisions must not depend on the path to this ideal.
        while j > 0 and reach[j - 1] > v:
            reach[j] = reach[j - 1]
            j -= 1
        reach[j] = v
    for i in range(x.integers[0]):
        v = reach[i]
        if time[v] <= target:
            reach[reach_count] = v
            head[v] = time[v]
            reach_count += 1
    ready_count = reach_count
    i = 0
    while i < reach_count:
        v = reach[i]
        i += 1
        status[v] = 1
        pot_weight += weight[v]
        pot_work += time[v]
        top = max(top, v // 64 + 1)
        if limited:
            pot_mem += memory_now[v]
            pot_next += memory_next[v]
            pot_space = max(pot_space, workspace[v])
            for p in range(item_cover_ptr[v], item_cover_ptr[v + 1]):
                pot_mem += cover_now[item_covers[p]]
        for p in range(succ_ptr[v], succ_ptr[v + 1]):
            u = succ[p]
            if stamp_item[u] != stamp:
                stamp_item[u] = stamp
                missing_now[u] = missing[u]
                head[u] = 0.0
            missing_now[u] -= 1
            head[u] = max(head[u], head[v])
            if missing_now[u] == 0:
                head[u] += time[u]
                if head[u] <= target and down_work[u] <= furthest and down_bytes[u] <= most_bytes:
                    reach[reach_count] = u
                    reach_count += 1
    open_cost, crossed = 0.0, x.cross[row]
    cut_inside = 0.0
    for i in range(reach_count):
        v = reach[i]
        for p in range(item_net_ptr[v], item_net_ptr[v + 1]):
            e = item_nets[p]
            if stamp_net[e] != stamp:
                stamp_net[e] = stamp
                net_out[e] = net_ptr[e + 1] - net_ptr[e]
                net_here[e] = 0
                open_cost += cost[e]
                if net_in[e] > 0:
                    cut_inside += cost[e]
            net_out[e] -= 1
            if net_out[e] == net_in[e] and net_in[e] > 0:
                crossed -= net_weight[e]
    # Bound on the communication of any stage here: what enters from the ideal, and what can cross any ideal.
    comm_limit = cut_inside + cross_limit[kind]
    free = (not limited) or (pot_mem + pot_space <= memory)
    exclude = use_dominance
    pot_all = pot_mem + pot_space
    total_rest = w.total[row] - x.sums[row]
    sums_mem = x.sums[w.item.shape[0]]
    total_mem = w.total[w.item.shape[0]] - sums_mem
    check_capacity = limited and capacity < np.inf

    outcome = REFUTED
    queue_len, mark_len, p0 = 0, 0, 0
    for i in range(ready_count):
        queue[i] = reach[i]
    queue_len = ready_count
    saved[0, :] = 0.0
    saved[0, OPEN] = open_cost
    saved[0, CROSS] = crossed
    saved[0, LEAST] = np.inf
    saved[0, LEAST_NEW] = np.inf
    saved[0, LEAST_MEM] = np.inf
    here = 0
    code = ideal_hash
    down = True  # whether the item at p0 is new, or its inclusion has just been explored
    nodes = s.counters[NODES]
    while True:
        nodes += 1
        if (nodes & 1023) == 0 and (stop[0] != 0 or halt[0] != 0 or nodes >= node_limit):
            outcome = LIMIT if stop[0] == 0 and halt[0] == 0 else STOPPED
            break
        if down and p0 == queue_len:
            # Everything is decided.
            keep = here > 0
            if keep and total_rest - (pot_weight - saved[p0, LOST]) + saved[p0, CROSS] > budget:
                keep = False
            if keep and limited:
                need = saved[p0, MEM] + saved[p0, SPACE] + (flights * saved[p0, ENTER] if recompute else 0.0)
                if need > memory:
                    keep = False
            if keep and here + x.integers[1] == n:
                s.counters[LAST_PARENT] = state
                s.counters[LAST_KIND] = kind
                outcome = FOUND
                break
            if keep and use_dominance:
                load = saved[p0, WORK] + saved[p0, COMM]
                for i in range(queue_len):
                    if decision[i] != 0:
                        continue
                    v = queue[i]
                    if load - saved[p0, COMM] + time[v] > inner:
                        continue
                    delta = 0.0
                    for p in range(item_net_ptr[v], item_net_ptr[v + 1]):
                        e = item_nets[p]
                        was = net_here[e] > 0
                        now = net_out[e] > 1
                        if was and not now:
                            delta -= cost[e]
                        elif now and not was:
                            delta += cost[e]
                    if load + time[v] + delta > inner:
                        continue
                    if not free:
                        need = saved[p0, MEM] + memory_now[v] + max(saved[p0, SPACE], workspace[v])
                        for p in range(item_cover_ptr[v], item_cover_ptr[v + 1]):
                            if cover_here[item_covers[p]] == 0:
                                need += cover_now[item_covers[p]]
                        if need > memory:
                            continue
                    worse = True
                    for k in range(kinds):
                        if remaining[k] == 0:
                            continue
                        fresh = 0.0
                        for p in range(item_net_ptr[v], item_net_ptr[v + 1]):
                            e = item_nets[p]
                            if net_in[e] + net_here[e] == 0:
                                fresh += all_cost[k, e]
                        if fresh > all_work[k, v]:
                            worse = False
                            break
                    if worse:
                        keep = False
                        break
            if keep:
                if s.counters[STATES] >= s.state_ideal.shape[0]:
                    outcome = GROW
                    break
                found = store_ideal(s, x, code, top)
                if found < 0:
                    outcome = GROW
                    break
                if not _dominated(s, digits, found, code_after, used_after, False):
                    s.fewest[found, code_after] = used_after
                    new = s.counters[STATES]
                    s.state_ideal[new] = found
                    s.state_code[new] = code_after
                    s.state_parent[new] = state
                    s.state_kind[new] = kind
                    s.counters[STATES] = new + 1
            down = False
        if not down:
            # Go back to the last decision; an inclusion turns into an exclusion.
            if p0 == 0:
                break
            p0 -= 1
            v = queue[p0]
            if decision[p0] == 1:
                for p in range(item_net_ptr[v], item_net_ptr[v + 1]):
                    net_here[item_nets[p]] -= 1
                for p in range(succ_ptr[v], succ_ptr[v + 1]):
                    missing[succ[p]] += 1
                for p in range(item_cover_ptr[v], item_cover_ptr[v + 1]):
                    cover_here[item_covers[p]] -= 1
                status[v] = 1
                words[v // 64] ^= one << np.uint64(v % 64)
                code ^= zobrist[v]
                here -= 1
                queue_len = queue_end[p0]
            else:
                start = mark_end[p0]
                for i in range(start, mark_len):
                    u = marks[i]
                    status[u] = 1
                    for p in range(item_net_ptr[u], item_net_ptr[u + 1]):
                        net_out[item_nets[p]] -= 1
                mark_len = start
                continue
        else:
            v = queue[p0]
            # Include v.
            work, comm = saved[p0, WORK] + time[v], saved[p0, COMM]
            crossing, opening = saved[p0, CROSS], saved[p0, OPEN]
            enter, mem, space = saved[p0, ENTER], saved[p0, MEM], saved[p0, SPACE]
            fits = work + comm <= target
            if fits and limited:
                mem += memory_now[v]
                space = max(space, workspace[v])
                for p in range(item_cover_ptr[v], item_cover_ptr[v + 1]):
                    if cover_here[item_covers[p]] == 0:
                        mem += cover_now[item_covers[p]]
                fits = mem + space <= memory
            if fits:
                for p in range(item_net_ptr[v], item_net_ptr[v + 1]):
                    e = item_nets[p]
                    mine, out = net_here[e], net_out[e]
                    net_here[e] = mine + 1
                    if mine == 0 and out > 0:
                        comm += cost[e]
                        if net_in[e] == 0:
                            crossing += net_weight[e]
                    if mine + 1 == net_ptr[e + 1] - net_ptr[e]:
                        opening -= cost[e]
                    if recompute and net_entering[e] > 0:
                        source = net_source[e]
                        if backwards:
                            if source == v:
                                if mine > 0:
                                    enter -= net_entering[e]
                            elif mine == 0:
                                enter += net_entering[e]
                        elif mine == 0 and in_ideal[source] != 0:
                            enter += net_entering[e]
                fits = work + comm <= target
                if fits and recompute and limited and not backwards:
                    fits = mem + space + flights * enter <= memory
                if fits and total_rest - (pot_weight - saved[p0, LOST]) + crossing > budget:
                    fits = False
                if not fits:
                    for p in range(item_net_ptr[v], item_net_ptr[v + 1]):
                        net_here[item_nets[p]] -= 1
            if fits:
                decision[p0] = 1
                queue_end[p0] = queue_len
                for p in range(item_cover_ptr[v], item_cover_ptr[v + 1]):
                    cover_here[item_covers[p]] += 1
                for p in range(succ_ptr[v], succ_ptr[v + 1]):
                    u = succ[p]
                    missing[u] -= 1
                    if missing[u] == 0 and status[u] == 1:
                        queue[queue_len] = u
                        queue_len += 1
                status[v] = 2
                words[v // 64] ^= one << np.uint64(v % 64)
                code ^= zobrist[v]
                here += 1
                saved[p0 + 1, WORK] = work
                saved[p0 + 1, COMM] = comm
                saved[p0 + 1, OPEN] = opening
                saved[p0 + 1, CROSS] = crossing
                saved[p0 + 1, LOST] = saved[p0, LOST]
                saved[p0 + 1, LOST_WORK] = saved[p0, LOST_WORK]
                saved[p0 + 1, MEM] = mem
                saved[p0 + 1, SPACE] = space
                saved[p0 + 1, ENTER] = enter
                saved[p0 + 1, LOST_MEM] = saved[p0, LOST_MEM]
                saved[p0 + 1, LEAST] = saved[p0, LEAST]
                saved[p0 + 1, LEAST_NEW] = saved[p0, LEAST_NEW]
                saved[p0 + 1, LEAST_MEM] = saved[p0, LEAST_MEM]
                saved[p0 + 1, LOST_NOW] = saved[p0, LOST_NOW]
                p0 += 1
                continue
        # Exclude v with all that depends on it; often what depends on it anywhere already rules that out.
        decision[p0] = 0
        mark_end[p0] = mark_len
        if up_weight[v] > budget:
            p0 += 1
            down = False
            continue
        least, least_new, least_mem = saved[p0, LEAST], saved[p0, LEAST_NEW], saved[p0, LEAST_MEM]
        if exclude:
            applies = True
            for k in range(kinds):
                if remaining[k] == 0:
                    continue
                fresh = 0.0
                for p in range(item_net_ptr[v], item_net_ptr[v + 1]):
                    e = item_nets[p]
                    if net_in[e] + net_here[e] == 0:
                        fresh += all_cost[k, e]
                if fresh > all_work[k, v]:
                    applies = False
                    break
            if applies:
                fresh = 0.0
                for p in range(item_net_ptr[v], item_net_ptr[v + 1]):
                    e = item_nets[p]
                    if net_here[e] == 0:
                        fresh += cost[e]
                if free:
                    least = min(least, time[v])
                    least_new = min(least_new, time[v] + fresh)
                    least_mem = 0.0
                else:
                    # Load and memory must both be seen to fit, for one item: remember the smallest.
                    mine = memory_now[v] + workspace[v]
                    for p in range(item_cover_ptr[v], item_cover_ptr[v + 1]):
                        mine += cover_now[item_covers[p]]
                    if mine < least_mem or (mine == least_mem and time[v] + fresh < least_new):
                        least, least_new, least_mem = time[v], time[v] + fresh, mine
            room = min(pot_work - saved[p0, LOST_WORK], work_left - up_work[v])
            if (free or pot_all - saved[p0, LOST_NOW] + least_mem <= memory) and room + min(
                least + comm_limit, least_new + saved[p0, OPEN]
            ) <= inner:
                p0 += 1
                down = False
                continue
        comm, crossing, opening = saved[p0, COMM], saved[p0, CROSS], saved[p0, OPEN]
        lost, lost_work, lost_mem = saved[p0, LOST], saved[p0, LOST_WORK], saved[p0, LOST_MEM]
        lost_now = saved[p0, LOST_NOW]
        i = mark_len
        marks[mark_len] = v
        mark_len += 1
        status[v] = 3
        while i < mark_len:
            u = marks[i]
            i += 1
            lost += weight[u]
            lost_work += time[u]
            if limited:
                lost_mem += memory_next[u]
                lost_now += memory_now[u]
                for p in range(item_cover_ptr[u], item_cover_ptr[u + 1]):
                    lost_now += cover_now[item_covers[p]]
            for p in range(item_net_ptr[u], item_net_ptr[u + 1]):
                e = item_nets[p]
                out, mine, before = net_out[e], net_here[e], net_in[e]
                net_out[e] = out + 1
                if mine > 0:
                    if out == 0:
                        comm += cost[e]
                elif out + 1 == net_ptr[e + 1] - net_ptr[e]:
                    opening -= cost[e]
                if out == before and before + mine > 0:
                    crossing += net_weight[e]
            for p in range(succ_ptr[u], succ_ptr[u + 1]):
                t = succ[p]
                if status[t] == 1:
                    status[t] = 3
                    marks[mark_len] = t
                    mark_len += 1
        fits = saved[p0, WORK] + comm <= target
        if fits and total_rest - (pot_weight - lost) + crossing > budget:
            fits = False
        if fits and check_capacity and total_mem - (pot_next - lost_mem) > capacity:
            fits = False
        if fits and exclude and (free or pot_all - lost_now + least_mem <= memory):
            fits = pot_work - lost_work + min(least + comm_limit, least_new + opening) > inner
        saved[p0 + 1, WORK] = saved[p0, WORK]
        saved[p0 + 1, COMM] = comm
        saved[p0 + 1, OPEN] = opening
        saved[p0 + 1, CROSS] = crossing
        saved[p0 + 1, LOST] = lost
        saved[p0 + 1, LOST_WORK] = lost_work
        saved[p0 + 1, MEM] = saved[p0, MEM]
        saved[p0 + 1, SPACE] = saved[p0, SPACE]
        saved[p0 + 1, ENTER] = saved[p0, ENTER]
        saved[p0 + 1, LOST_MEM] = lost_mem
        saved[p0 + 1, LEAST] = least
        saved[p0 + 1, LEAST_NEW] = least_new
        saved[p0 + 1, LEAST_MEM] = least_mem
        saved[p0 + 1, LOST_NOW] = lost_now
        p0 += 1
        down = fits
    s.counters[NODES] = nodes
    if outcome == REFUTED:
        for i in range(reach_count):
            status[reach[i]] = 0
    else:
        s.counters[VALID] = 0
    return outcome


@compiled
def _start_level(a: Arrays, w: Weights, s: Store, x: Scratch) -> None:
    """Memory per item for the next stage and, at least, for those after it."""
    level = s.counters[LEVEL]
    recompute = a.limits[1] != 0
    q = 1 if recompute else a.in_flight[level + 1]
    after = 1 if recompute else a.in_flight[min(level + 2, a.in_flight.shape[0] - 1)]
    rows = w.item.shape[0]
    total, inside = 0.0, 0.0
    for v in range(x.in_ideal.shape[0]):
        x.memory_now[v] = a.fixed[v] + q * a.active[v]
        x.memory_next[v] = a.fixed[v] + after * a.active[v]
        total += x.memory_next[v]
        if x.in_ideal[v] != 0:
            inside += x.memory_next[v]
    w.total[rows] = total
    x.sums[rows] = inside
    for c in range(a.cover_fixed.shape[0]):
        x.cover_now[c] = a.cover_fixed[c] + q * a.cover_active[c]


@compiled
def search(
    a: Arrays,
    w: Weights,
    s: Store,
    x: Scratch,
    target: float,
    cross_limit: Floats,
    use_dominance: bool,
    stride: Longs,
    digits: Longs,
    digit_sum: Longs,
    node_limit: int,
    stop: Longs,
    halt: Longs,
) -> int:
    """Continue the search; see the module. Start with an empty store: one state, ideal 0, the empty one.

    Returns FOUND (``LAST_PARENT`` and ``LAST_KIND`` give the final stage), REFUTED, GROW (enlarge the store and call
    again), LIMIT (nodes used up; call again to continue) or STOPPED.
    """
    kinds = a.work.shape[0]
    devices = 0
    for k in range(kinds):
        devices += a.devices[k]
    if s.counters[VALID] == 0:
        clear(a, x)
        if s.counters[LEVEL] < devices:
            _start_level(a, w, s, x)
        s.counters[VALID] = 1
    remaining = np.zeros(kinds, np.int64)
    while True:
        cursor = s.counters[CURSOR]
        if cursor == s.counters[LEVEL_END]:
            s.counters[LEVEL] += 1
            if s.counters[STATES] == cursor or s.counters[LEVEL] >= devices:
                return REFUTED
            s.counters[LEVEL_END] = s.counters[STATES]
            _start_level(a, w, s, x)
        ideal, code = s.state_ideal[cursor], s.state_code[cursor]
        used = s.counters[LEVEL] - digit_sum[code]
        if s.fewest[ideal, code] < used or _dominated(s, digits, ideal, code, used, True):
            s.counters[CURSOR] = cursor + 1
            continue
        move_to(a, w, s, x, ideal)
        for kind in range(kinds):
            mine = used if kind == 0 else digits[code, kind]
            if mine >= a.devices[kind]:
                continue
            for k in range(kinds):
                remaining[k] = a.devices[k] - (used if k == 0 else digits[code, k])
            remaining[kind] -= 1
            status = _expand(
                a,
                w,
                s,
                x,
                target,
                cross_limit,
                use_dominance,
                cursor,
                kind,
                remaining,
                code if kind == 0 else code + stride[kind],
                used + 1 if kind == 0 else used,
                digits,
                s.ideal_hash[ideal],
                node_limit,
                stop,
                halt,
            )
            if status != REFUTED:
                return status
        s.counters[STATES_EXPANDED] += 1
        s.counters[CURSOR] = cursor + 1
