"""Is there an acyclic split with every load at most T?  Breadth-first search over ideals, one stage per level.

A state is a pair (ideal, devices used); the stages that may follow an ideal are enumerated by deciding, in a fixed
order, for every ready item whether it joins the stage or stays outside together with all that depends on it. Source of
the plain dynamic program: Tarnawski et al., NeurIPS 2020, §5.1.1; the pruning rules are stated and proved in
``partita.problems.throughput.solvers.decision``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.kernels.compiled import allocating_nothing, inlined
from partita.kernels.throughput.arrays import Arrays, Codes, Floats, Longs
from partita.kernels.throughput.decisions import (
    AWAY,
    EXCLUDED,
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
    LEVEL_END,
    LIMIT,
    NODES,
    REFUTED,
    STATES,
    STATES_EXPANDED,
    STOPPED,
    VALID,
    Question,
    Scratch,
    Store,
    Tally,
    Until,
    Weights,
)

#: Columns of ``Scratch.saved``, the numbers of a stage at one depth. Of the items that joined: work, communication that
#: is certain, cost of nets whose fate is open, weight of nets that surely cross, bytes, workspace, entering bytes. Of
#: the excluded ones: weight, work, bytes in later stages and in this one. Of the excluded ones that no stage without
#: them is worth keeping for: least work, least work with nets that become new, and bytes of that one.
WORK, COMM, UNDECIDED, CROSS, MEM, SPACE, ENTER, LOST, LOST_WORK, LOST_MEM, LOST_NOW, LEAST, LEAST_NEW, LEAST_MEM = (
    range(14)
)


class _Stage(NamedTuple):
    """What holds throughout one expansion, apart from the question.

    Where it leads and what it may use: the state it comes from, its kind and the code and count after it, limits with
    those of what remains, and the rows of this kind and of the weights in force. What is still to come: weight and
    memory outside the ideal, and what items in reach add up to.
    """

    state: int
    kind: int
    code_after: int
    used_after: int
    flights: int
    memory: float
    budget: float
    capacity: float
    inner: float
    time: Floats
    cost: Floats
    weight: Floats
    net_weight: Floats
    up_weight: Floats
    up_work: Floats
    later: Floats
    remaining: Longs
    ready: int
    reached: int
    top: int
    weight_left: float
    memory_left: float
    work_left: float
    comm_limit: float
    reach_weight: float
    reach_work: float
    reach_now: float
    reach_later: float
    roomy: bool


@allocating_nothing
def _start_stage(
    a: Arrays,
    w: Weights,
    t: Tally,
    s: Store,
    x: Scratch,
    question: Question,
    state: int,
    kind: int,
    code_after: int,
    used_after: int,
    remaining: Longs,
) -> _Stage:
    """What a stage after the current ideal can hold, and the numbers of the empty one at depth 0."""
    rows, kinds = w.item.shape[0], a.work.shape[0]
    rest = 0
    for k in range(kinds):
        rest += remaining[k] * w.radix[k]
    row = w.choice[rest]
    time, cost, weight, net_weight = a.work[kind], a.net_cost[kind], w.item[row], w.net[row]
    memory, later = a.memory[kind], t.item[:, rows + kinds + 1]
    capacity = w.capacity[rest] if a.limited else np.inf
    # An item is out of reach if what lies before it, of which at most ``done`` is in the ideal, is too much.
    done = t.inside[rows + kind]
    x.most_before[0] = question.target + done * (1.0 + 1e-9)
    x.most_before[1] = memory + t.inside[rows + kinds] * (1.0 + 1e-9)
    ready, reached, top = reach_items(a, s, x, time, question.target, w.before[kind], x.most_before)
    reach_weight, reach_work, reach_now, reach_later, space = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(reached):
        v = x.reach[i]
        reach_weight += weight[v]
        reach_work += time[v]
        if a.limited:
            reach_now += _bytes_with_covers(a, x, v)
            reach_later += later[v]
            space = max(space, a.workspace[v])
    roomy = not a.limited or reach_now + space <= memory
    x.saved[0] = 0.0
    undecided, crossing, cut_inside = 0.0, t.across[row], 0.0
    for i in range(open_nets(a, s, x, reached)):
        e = x.touched[i]
        undecided += cost[e]
        if x.net_in[e] > 0:
            cut_inside += cost[e]
            if x.net_out[e] == x.net_in[e]:
                crossing -= net_weight[e]
    x.saved[0, UNDECIDED], x.saved[0, CROSS] = undecided, crossing
    x.saved[0, LEAST], x.saved[0, LEAST_NEW], x.saved[0, LEAST_MEM] = np.inf, np.inf, np.inf
    return _Stage(
        state=state,
        kind=kind,
        code_after=code_after,
        used_after=used_after,
        flights=a.in_flight[s.counters[LEVEL] + 1],
        memory=memory,
        budget=w.budget[rest],
        capacity=capacity,
        # Dominance uses a load that is smaller by more than rounding, so that what replaces a stage is surely kept.
        inner=question.target * (1.0 - 1e-12),
        time=time,
        cost=cost,
        weight=weight,
        net_weight=net_weight,
        up_weight=w.up_item[row],
        up_work=w.up_work[kind],
        later=later,
        remaining=remaining,
        ready=ready,
        reached=reached,
        top=top,
        weight_left=w.total[row] - t.inside[row],
        memory_left=w.total[rows] - t.inside[rows + kinds + 1],
        work_left=w.all_work[kind] - done,
        # On the communication of any stage here: what enters from the ideal, and what can cross any ideal.
        comm_limit=cut_inside + question.cross_limit[kind],
        reach_weight=reach_weight,
        reach_work=reach_work,
        reach_now=reach_now + space,
        reach_later=reach_later,
        roomy=roomy,
    )


@inlined
def _bytes_with_covers(a: Arrays, x: Scratch, v: int) -> float:
    """What an item needs by itself."""
    need = x.memory[v]
    for p in range(a.item_cover_ptr[v], a.item_cover_ptr[v + 1]):
        need += x.cover_memory[a.item_covers[p]]
    return float(need)


@inlined
def _overfull(g: _Stage, weight_lost: float, crossing: float) -> bool:
    """Whether what surely remains is too much for the devices that remain."""
    return bool(g.weight_left - (g.reach_weight - weight_lost) + crossing > g.budget)


@inlined
def _cheap_to_move(a: Arrays, x: Scratch, g: _Stage, v: int) -> bool:
    """Whether a later stage without v saves at least what v's nets may newly cost there."""
    for k in range(g.remaining.shape[0]):
        if g.remaining[k] == 0:
            continue
        fresh = 0.0
        for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
            e = a.item_nets[p]
            if x.net_in[e] + x.net_here[e] == 0:
                fresh += a.net_cost[k, e]
        if fresh > a.work[k, v]:
            return False
    return True


@inlined
def _can_join(a: Arrays, x: Scratch, g: _Stage, v: int, depth: int) -> bool:
    """Whether a finished stage is feasible with the ready item v, and better for all that follows."""
    comm = x.saved[depth, COMM]
    load = x.saved[depth, WORK] + comm
    if load - comm + g.time[v] > g.inner:
        return False
    change = 0.0
    for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
        e = a.item_nets[p]
        was, now = x.net_here[e] > 0, x.net_out[e] > 1
        if was and not now:
            change -= g.cost[e]
        elif now and not was:
            change += g.cost[e]
    if load + g.time[v] + change > g.inner:
        return False
    if not g.roomy:
        need = x.saved[depth, MEM] + x.memory[v] + max(x.saved[depth, SPACE], a.workspace[v])
        for p in range(a.item_cover_ptr[v], a.item_cover_ptr[v + 1]):
            if x.cover_here[a.item_covers[p]] == 0:
                need += x.cover_memory[a.item_covers[p]]
        if need > g.memory:
            return False
    return _cheap_to_move(a, x, g, v)


@inlined
def _feasible(a: Arrays, x: Scratch, g: _Stage, depth: int) -> bool:
    """Whether what remains after a finished stage fits on the devices left, and the stage into memory."""
    if _overfull(g, x.saved[depth, LOST], x.saved[depth, CROSS]):
        return False
    if not a.limited:
        return True
    entering = g.flights * x.saved[depth, ENTER] if a.recompute else 0.0
    return bool(x.saved[depth, MEM] + x.saved[depth, SPACE] + entering <= g.memory)


@inlined
def _include(a: Arrays, x: Scratch, g: _Stage, target: float, v: int, depth: int) -> bool:
    """The numbers of the stage with v at the next depth; whether it may be kept. If so, its pins are counted."""
    now, then = x.saved[depth], x.saved[depth + 1]
    work, comm = now[WORK] + g.time[v], now[COMM]
    if work + comm > target:
        return False
    undecided, crossing, enter, mem, space = now[UNDECIDED], now[CROSS], now[ENTER], now[MEM], now[SPACE]
    if a.limited:
        mem += x.memory[v]
        space = max(space, a.workspace[v])
        for p in range(a.item_cover_ptr[v], a.item_cover_ptr[v + 1]):
            if x.cover_here[a.item_covers[p]] == 0:
                mem += x.cover_memory[a.item_covers[p]]
        if mem + space > g.memory:
            return False
    for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
        e = a.item_nets[p]
        mine = x.net_here[e]
        x.net_here[e] = mine + 1
        if mine == 0 and x.net_out[e] > 0:
            comm += g.cost[e]
            if x.net_in[e] == 0:
                crossing += g.net_weight[e]
        if mine + 1 == a.net_ptr[e + 1] - a.net_ptr[e]:
            undecided -= g.cost[e]
        if a.recompute:
            enter += entering(a, x, e, v, mine)
    fits = work + comm <= target and not _overfull(g, now[LOST], crossing)
    if fits and a.recompute and a.limited and not a.backwards:
        fits = mem + space + g.flights * enter <= g.memory
    if not fits:
        for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
            x.net_here[a.item_nets[p]] -= 1
        return False
    copy_row(x.saved, depth)
    then[WORK], then[COMM], then[UNDECIDED], then[CROSS] = work, comm, undecided, crossing
    then[MEM], then[SPACE], then[ENTER] = mem, space, enter
    return True


@inlined
def _worth_excluding(a: Arrays, x: Scratch, g: _Stage, v: int, depth: int) -> bool:
    """Whether a stage without v may be kept, by rule *Exclusion*; the next depth remembers what v asks for."""
    now, then = x.saved[depth], x.saved[depth + 1]
    if _cheap_to_move(a, x, g, v):
        fresh = 0.0
        for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
            e = a.item_nets[p]
            if x.net_here[e] == 0:
                fresh += g.cost[e]
        if g.roomy:
            then[LEAST] = min(now[LEAST], g.time[v])
            then[LEAST_NEW] = min(now[LEAST_NEW], g.time[v] + fresh)
            then[LEAST_MEM] = 0.0
        else:
            # Load and memory must both be seen to fit, for one item: remember the smallest.
            mine = _bytes_with_covers(a, x, v) + a.workspace[v]
            if mine < now[LEAST_MEM] or (mine == now[LEAST_MEM] and g.time[v] + fresh < now[LEAST_NEW]):
                then[LEAST], then[LEAST_NEW], then[LEAST_MEM] = g.time[v], g.time[v] + fresh, mine
    room = min(g.reach_work - now[LOST_WORK], g.work_left - g.up_work[v])
    return _too_large(g, then, now[LOST_NOW], room, now[UNDECIDED])


@inlined
def _too_large(g: _Stage, then: Floats, lost_now: float, room: float, undecided: float) -> bool:
    """Whether a stage with up to ``room`` of work and some excluded item may exceed memory or the target."""
    if not g.roomy and g.reach_now - lost_now + then[LEAST_MEM] > g.memory:
        return True
    return bool(room + min(then[LEAST] + g.comm_limit, then[LEAST_NEW] + undecided) > g.inner)


@inlined
def _exclude(
    a: Arrays, x: Scratch, g: _Stage, question: Question, v: int, depth: int, mark_len: int
) -> tuple[int, bool]:
    """Leave v out with all that depends on it; how many items are marked now, and whether the stage may be kept."""
    then = x.saved[depth + 1]
    comm, crossing, undecided = then[COMM], then[CROSS], then[UNDECIDED]
    lost, lost_work, lost_mem, lost_now = then[LOST], then[LOST_WORK], then[LOST_MEM], then[LOST_NOW]
    i = mark_len
    x.marks[mark_len] = v
    mark_len += 1
    x.status[v] = EXCLUDED
    while i < mark_len:
        u = x.marks[i]
        i += 1
        lost += g.weight[u]
        lost_work += g.time[u]
        if a.limited:
            lost_mem += g.later[u]
            lost_now += _bytes_with_covers(a, x, u)
        for p in range(a.item_net_ptr[u], a.item_net_ptr[u + 1]):
            e = a.item_nets[p]
            out, mine, before = x.net_out[e], x.net_here[e], x.net_in[e]
            x.net_out[e] = out + 1
            if mine > 0:
                if out == 0:
                    comm += g.cost[e]
            elif out + 1 == a.net_ptr[e + 1] - a.net_ptr[e]:
                undecided -= g.cost[e]
            if out == before and before + mine > 0:
                crossing += g.net_weight[e]
        for p in range(a.succ_ptr[u], a.succ_ptr[u + 1]):
            follower = a.succ[p]
            if x.status[follower] == OPEN:
                x.status[follower] = EXCLUDED
                x.marks[mark_len] = follower
                mark_len += 1
    then[COMM], then[CROSS], then[UNDECIDED] = comm, crossing, undecided
    then[LOST], then[LOST_WORK], then[LOST_MEM], then[LOST_NOW] = lost, lost_work, lost_mem, lost_now
    fits = then[WORK] + comm <= question.target and not _overfull(g, lost, crossing)
    fits = fits and g.memory_left - (g.reach_later - lost_mem) <= g.capacity
    if fits and question.dominance:
        fits = _too_large(g, then, lost_now, g.reach_work - lost_work, undecided)
    return mark_len, fits


@inlined
def _worth_keeping(a: Arrays, x: Scratch, g: _Stage, depth: int, queue_len: int) -> bool:
    """Whether no ready item outside a finished stage can join it; see rule *Dominance*."""
    for i in range(queue_len):  # noqa: SIM110 (compiled code knows no generators)
        if x.decision[i] == 0 and _can_join(a, x, g, x.queue[i], depth):
            return False
    return True


@allocating_nothing
def _expand(
    a: Arrays, s: Store, x: Scratch, codes: Codes, question: Question, until: Until, g: _Stage, code: np.uint64
) -> int:
    """Emit every stage worth keeping after the current ideal, whose hash is ``code``; an answer if that ends early."""
    items_left = x.in_ideal.shape[0] - x.places[INSIDE]
    queue_len, mark_len, depth, here = g.ready, 0, 0, 0
    for i in range(g.ready):
        x.queue[i] = x.reach[i]
    outcome, nodes = REFUTED, s.counters[NODES]
    down = True  # whether the item at this depth is new, or its inclusion has just been explored
    while True:
        nodes += 1
        if (nodes & 1023) == 0 and (until.stop[0] != 0 or until.halt[0] != 0 or nodes >= until.node_limit):
            outcome = LIMIT if until.stop[0] == 0 and until.halt[0] == 0 else STOPPED
            break
        if down and depth == queue_len:
            # Everything is decided.
            if here > 0 and _feasible(a, x, g, depth):
                if here == items_left:
                    s.counters[LAST_PARENT], s.counters[LAST_KIND], s.counters[LAST_REPLICAS] = g.state, g.kind, 1
                    outcome = FOUND
                    break
                keep = not question.dominance or _worth_keeping(a, x, g, depth, queue_len)
                if keep and not keep_state(s, x, codes, code, g.top, g.state, g.kind, 1, g.code_after, g.used_after):
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
            if _include(a, x, g, question.target, v, depth):
                queue_len = add_item(a, x, v, depth, queue_len)
                code ^= x.zobrist[v]
                here += 1
                depth += 1
                continue
        # Exclude v with all that depends on it; often what depends on it anywhere already rules that out.
        x.decision[depth] = 0
        x.mark_end[depth] = mark_len
        down = g.up_weight[v] <= g.budget
        if down:
            copy_row(x.saved, depth)
            down = not question.dominance or _worth_excluding(a, x, g, v, depth)
        if down:
            mark_len, down = _exclude(a, x, g, question, v, depth, mark_len)
        depth += 1
    s.counters[NODES] = nodes
    if outcome == REFUTED:
        for i in range(g.reached):
            x.status[x.reach[i]] = AWAY
    else:
        s.counters[VALID] = 0
    return outcome


@allocating_nothing
def _start_level(a: Arrays, w: Weights, t: Tally, s: Store, x: Scratch) -> None:
    """Memory per item for the next stage and, at least, for those after it."""
    level, row = s.counters[LEVEL], t.inside.shape[0] - 1
    now = 1 if a.recompute else a.in_flight[level + 1]
    after = 1 if a.recompute else a.in_flight[min(level + 2, a.in_flight.shape[0] - 1)]
    total, inside = 0.0, 0.0
    for v in range(x.in_ideal.shape[0]):
        x.memory[v] = a.fixed[v] + now * a.active[v]
        t.item[v, row] = a.fixed[v] + after * a.active[v]
        total += t.item[v, row]
        if x.in_ideal[v] != 0:
            inside += t.item[v, row]
    w.total[w.item.shape[0]] = total
    t.inside[row] = inside
    for c in range(a.cover_fixed.shape[0]):
        x.cover_memory[c] = a.cover_fixed[c] + now * a.cover_active[c]


@allocating_nothing
def search(
    a: Arrays, w: Weights, t: Tally, s: Store, x: Scratch, codes: Codes, question: Question, until: Until
) -> int:
    """Continue the search; see the module. Start with an empty store: one state, ideal 0, the empty one.

    ``t`` sums the weights, the work on every kind, the least bytes, and the bytes in later stages, which this fills.

    Returns FOUND (``LAST_PARENT`` and ``LAST_KIND`` give the final stage), REFUTED, GROW (enlarge the store and call
    again), LIMIT (nodes used up; call again to continue) or STOPPED.
    """
    kinds, devices = a.work.shape[0], int(a.devices.sum())
    if s.counters[VALID] == 0:
        clear(a, t, x)
        if s.counters[LEVEL] < devices:
            _start_level(a, w, t, s, x)
        s.counters[VALID] = 1
    remaining = x.remaining
    while True:
        cursor = s.counters[CURSOR]
        if cursor == s.counters[LEVEL_END]:
            s.counters[LEVEL] += 1
            if s.counters[STATES] == cursor or s.counters[LEVEL] >= devices:
                return REFUTED
            s.counters[LEVEL_END] = s.counters[STATES]
            _start_level(a, w, t, s, x)
        ideal, code = s.state_ideal[cursor], s.state_code[cursor]
        used = s.counters[LEVEL] - codes.digit_sum[code]
        if is_known_better(s, codes, cursor, used):
            s.counters[CURSOR] = cursor + 1
            continue
        move_to(a, t, s, x, ideal)
        for kind in range(kinds):
            remaining_devices(a, codes, code, used, remaining)
            if remaining[kind] == 0:
                continue
            remaining[kind] -= 1
            code_after, used_after = code + codes.stride[kind], used + int(kind == 0)
            g = _start_stage(a, w, t, s, x, question, cursor, kind, code_after, used_after, remaining)
            outcome = _expand(a, s, x, codes, question, until, g, s.ideal_hash[ideal])
            if outcome != REFUTED:
                return outcome
        s.counters[STATES_EXPANDED] += 1
        s.counters[CURSOR] = cursor + 1
