"""The search over downsets for plain problems: every load, one sum, at most T.

The rules are stated and proved in ``partita.problems.throughput.solvers.plain``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.kernels.compiled import allocating_nothing, called_allocating_nothing, inlined
from partita.engines.kernels.rows import sets_with
from partita.engines.kernels.throughput import decisions
from partita.engines.kernels.throughput.arrays import Arrays
from partita.engines.kernels.throughput.search import StageSteps, search_downsets
from partita.engines.kernels.throughput.search_state import HELD, LEVEL, DownsetSearch, Plain, Scratch, StageTrial
from partita.ground.rounding import SUMMED_FEW, TOLERANCE

#: Columns of ``Scratch.saved``, the numbers of a stage at one depth. Of the items that joined: work, communication that
#: is certain, cost of nets whose fate is open, weight of nets that surely cross, bytes, workspace, entering bytes. Of
#: the excluded ones: weight, work, bytes in later stages and in this one. Of the excluded ones that no stage without
#: them is worth keeping for: least work with nets that become new, and bytes of that one.
WORK, COMM, UNDECIDED, CROSS, MEM, SPACE, ENTER, LOST, LOST_WORK, LOST_MEM, LOST_NOW, LEAST, LEAST_MEM = range(13)


class _PlainStage(NamedTuple):
    """What holds throughout one expansion.

    What the stage may use: limits with those of what remains, and the rows of its kind and of the weights in force.
    What is still to come: weight and memory outside the downset, and what items in reach add up to.
    """

    stage: StageTrial
    ready: int
    reached: int
    top: int
    possible: bool
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
    weight_left: float
    memory_left: float
    work_left: float
    reach_weight: float
    reach_work: float
    reach_now: float
    reach_later: float
    roomy: bool


@inlined
def _crosses(c: DownsetSearch[Plain]) -> bool:
    """There is one group."""
    return False


@called_allocating_nothing
def _hold_level(c: DownsetSearch[Plain]) -> None:
    """Memory per item for the next stage and, at least, for those after it."""
    a, t, x, level = c.arrays, c.tally, c.scratch, c.store.counters[LEVEL]
    decisions.hold(a, x, a.in_flight[level + 1])
    row, after = t.inside.shape[0] - 1, 1 if a.recompute else a.in_flight[min(level + 2, a.in_flight.shape[0] - 1)]
    total, inside = 0.0, 0.0
    for v in range(x.in_downset.shape[0]):
        t.item[v, row] = a.fixed[v] + after * a.active[v]
        total += t.item[v, row]
        if x.in_downset[v] != 0:
            inside += t.item[v, row]
    c.own.total[row - a.work.shape[0] - 1] = total
    t.inside[row] = inside
    c.store.counters[HELD] = level


@inlined
def _start(c: DownsetSearch[Plain], stage: StageTrial) -> _PlainStage:
    a, w, t, s, x, y, kind = c.arrays, c.weights, c.tally, c.store, c.scratch, c.own, stage.kind
    if s.counters[HELD] != s.counters[LEVEL]:
        _hold_level(c)
    rows, kinds = w.item.shape[0], a.work.shape[0]
    row = w.choice[0, stage.rest]
    time, cost, weight, net_weight = a.work[kind], a.net_cost[kind], w.item[row], w.net[row]
    memory, later = a.memory[kind], t.item[:, rows + kinds + 1]
    # An item is out of reach if what lies before it, of which at most ``done`` is in the downset, is too much.
    done = t.inside[rows + kind]
    x.most_before[0] = y.target + done * (1.0 + TOLERANCE)
    x.most_before[1] = memory + t.inside[rows + kinds] * (1.0 + TOLERANCE)
    ready, reached, top = decisions.reach_items(a, s, x, time, y.target, y.before[kind], x.most_before)
    reach_weight, reach_work, reach_now, reach_later, space = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(reached):
        v = x.reach[i]
        reach_weight += weight[v]
        reach_work += time[v]
        if a.limited:
            reach_now += _bytes_with_covers(a, x, v)
            reach_later += later[v]
            space = max(space, a.workspace[v])
    capacity = y.capacity[stage.rest] if a.limited else np.inf
    roomy = not a.limited or reach_now + space <= memory
    x.saved[0] = 0.0
    undecided, crossing = 0.0, t.across[row]
    for i in range(decisions.open_nets(a, s, x, reached)):
        e = x.touched[i]
        undecided += cost[e]
        if 0 < x.net_in[e] == x.net_out[e]:
            crossing -= net_weight[e]
    x.saved[0, UNDECIDED], x.saved[0, CROSS] = undecided, crossing
    x.saved[0, LEAST], x.saved[0, LEAST_MEM] = np.inf, np.inf
    return _PlainStage(
        stage=stage,
        ready=ready,
        reached=reached,
        top=top,
        possible=True,
        flights=a.in_flight[s.counters[LEVEL] + 1],
        memory=memory,
        budget=w.budget[0, stage.rest],
        capacity=capacity,
        # Dominance uses a load that is smaller by more than rounding, so that what replaces a stage is surely kept.
        inner=y.target * (1.0 - SUMMED_FEW),
        time=time,
        cost=cost,
        weight=weight,
        net_weight=net_weight,
        up_weight=y.up_item[row],
        up_work=y.up_work[kind],
        later=later,
        weight_left=y.total[row] - t.inside[row],
        memory_left=y.total[rows] - t.inside[rows + kinds + 1],
        work_left=y.all_work[kind] - done,
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
    for c in sets_with(a.cover, v):
        need += x.cover_memory[c]
    return float(need)


@inlined
def _overfull(g: _PlainStage, weight_lost: float, crossing: float) -> bool:
    """Whether what surely remains is too much for the devices that remain."""
    return bool(g.weight_left - (g.reach_weight - weight_lost) + crossing > g.budget)


@inlined
def _cheap_to_move(a: Arrays, x: Scratch, v: int) -> bool:
    """Whether a later stage without v saves at least what v's nets may newly cost there."""
    for k in range(x.remaining.shape[0]):
        if x.remaining[k] == 0:
            continue
        fresh = 0.0
        for e in sets_with(a.net, v):
            if x.net_in[e] + x.net_here[e] == 0:
                fresh += a.net_cost[k, e]
        if fresh > a.work[k, v]:
            return False
    return True


@inlined
def _include(c: DownsetSearch[Plain], g: _PlainStage, v: int, depth: int) -> bool:
    a, x, target = c.arrays, c.scratch, c.own.target
    now, then = x.saved[depth], x.saved[depth + 1]
    work, comm = now[WORK] + g.time[v], now[COMM]
    if work + comm > target:
        return False
    undecided, crossing, enter, mem, space = now[UNDECIDED], now[CROSS], now[ENTER], now[MEM], now[SPACE]
    if a.limited:
        mem, space = decisions.with_item(a, x, v, mem, space)
        if mem + space > g.memory:
            return False
    for e in sets_with(a.net, v):
        mine = x.net_here[e]
        x.net_here[e] = mine + 1
        if mine == 0 and x.net_out[e] > 0:
            comm += g.cost[e]
            if x.net_in[e] == 0:
                crossing += g.net_weight[e]
        if mine + 1 == a.net.ptr[e + 1] - a.net.ptr[e]:
            undecided -= g.cost[e]
        if a.recompute:
            enter += decisions.entering(a, x, e, v, mine)
    fits = work + comm <= target and not _overfull(g, now[LOST], crossing)
    if fits and a.recompute and a.limited and not a.backwards:
        fits = mem + space + g.flights * enter <= g.memory
    if not fits:
        for e in sets_with(a.net, v):
            x.net_here[e] -= 1
        return False
    decisions.copy_row(x.saved, depth)
    then[WORK], then[COMM], then[UNDECIDED], then[CROSS] = work, comm, undecided, crossing
    then[MEM], then[SPACE], then[ENTER] = mem, space, enter
    return True


@inlined
def _worth_excluding(c: DownsetSearch[Plain], g: _PlainStage, v: int, depth: int) -> bool:
    """Rules *Capacity*, of all that follows v, and *Exclusion*; the next depth remembers what v asks for."""
    if g.up_weight[v] > g.budget:
        return False
    a, x = c.arrays, c.scratch
    decisions.copy_row(x.saved, depth)
    if not c.dominance:
        return True
    now, then = x.saved[depth], x.saved[depth + 1]
    if _cheap_to_move(a, x, v):
        fresh = 0.0
        for e in sets_with(a.net, v):
            if x.net_here[e] == 0:
                fresh += g.cost[e]
        if g.roomy:
            then[LEAST] = min(now[LEAST], g.time[v] + fresh)
            then[LEAST_MEM] = 0.0
        else:
            # Load and memory must both be seen to fit, for one item: remember the smallest.
            mine = _bytes_with_covers(a, x, v) + a.workspace[v]
            if mine < now[LEAST_MEM] or (mine == now[LEAST_MEM] and g.time[v] + fresh < now[LEAST]):
                then[LEAST], then[LEAST_MEM] = g.time[v] + fresh, mine
    return _too_large(g, then, min(g.reach_work - now[LOST_WORK], g.work_left - g.up_work[v]))


@inlined
def _too_large(g: _PlainStage, now: Floats, room: float) -> bool:
    """Whether a stage with up to ``room`` of work and some excluded item may exceed memory or the target."""
    if not g.roomy and g.reach_now - now[LOST_NOW] + now[LEAST_MEM] > g.memory:
        return True
    return bool(room + (now[LEAST] + now[UNDECIDED]) > g.inner)


@inlined
def _leave(c: DownsetSearch[Plain], g: _PlainStage, u: int, depth: int) -> None:
    a, x = c.arrays, c.scratch
    now = x.saved[depth]
    comm, crossing, undecided = now[COMM], now[CROSS], now[UNDECIDED]
    x.status[u] = decisions.EXCLUDED
    now[LOST] += g.weight[u]
    now[LOST_WORK] += g.time[u]
    if a.limited:
        now[LOST_MEM] += g.later[u]
        now[LOST_NOW] += _bytes_with_covers(a, x, u)
    for e in sets_with(a.net, u):
        out, mine, before = x.net_out[e], x.net_here[e], x.net_in[e]
        x.net_out[e] = out + 1
        if mine > 0:
            if out == 0:
                comm += g.cost[e]
        elif out + 1 == a.net.ptr[e + 1] - a.net.ptr[e]:
            undecided -= g.cost[e]
        if out == before and before + mine > 0:
            crossing += g.net_weight[e]
    now[COMM], now[CROSS], now[UNDECIDED] = comm, crossing, undecided


@inlined
def _fits(c: DownsetSearch[Plain], g: _PlainStage, depth: int) -> bool:
    now = c.scratch.saved[depth]
    if now[WORK] + now[COMM] > c.own.target or _overfull(g, now[LOST], now[CROSS]):
        return False
    if g.memory_left - (g.reach_later - now[LOST_MEM]) > g.capacity:
        return False
    return not c.dominance or _too_large(g, now, g.reach_work - now[LOST_WORK])


@inlined
def _feasible(c: DownsetSearch[Plain], g: _PlainStage, depth: int) -> bool:
    a, now = c.arrays, c.scratch.saved[depth]
    if _overfull(g, now[LOST], now[CROSS]):
        return False
    if not a.limited:
        return True
    entering = g.flights * now[ENTER] if a.recompute else 0.0
    return bool(now[MEM] + now[SPACE] + entering <= g.memory)


@inlined
def _worth_keeping(c: DownsetSearch[Plain], g: _PlainStage, depth: int, count: int) -> bool:
    x = c.scratch
    if c.dominance:
        for i in range(count):
            if x.decision[i] == 0 and _can_join(c.arrays, x, g, x.queue[i], depth):
                return False
    return True


@inlined
def _can_join(a: Arrays, x: Scratch, g: _PlainStage, v: int, depth: int) -> bool:
    """Whether a finished stage is feasible with the ready item v, and better for all that follows."""
    now = x.saved[depth]
    if now[WORK] + g.time[v] > g.inner:
        return False
    change = 0.0
    for e in sets_with(a.net, v):
        was, now_cut = x.net_here[e] > 0, x.net_out[e] > 1
        if was and not now_cut:
            change -= g.cost[e]
        elif now_cut and not was:
            change += g.cost[e]
    if now[WORK] + now[COMM] + g.time[v] + change > g.inner:
        return False
    if not g.roomy:
        mem, space = decisions.with_item(a, x, v, now[MEM], now[SPACE])
        if mem + space > g.memory:
            return False
    return _cheap_to_move(a, x, v)


_STEPS = StageSteps(_crosses, _start, _include, _worth_excluding, _leave, _fits, _feasible, _worth_keeping)


@allocating_nothing
def search_plain(c: DownsetSearch[Plain]) -> int:
    """See ``search_downsets``.

    ``tally`` sums the weights, the work on every kind, the least bytes, and bytes in later stages, which this fills.
    """
    return search_downsets(c, _STEPS)
