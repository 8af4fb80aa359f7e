"""Decisions about hybrid plans: the fewest devices that run a suffix set with every stage within a target.

The table over suffix sets is filled from the empty one on: a set is followed by single stages or, on machines of
several devices, by groups of stages (``machines``). Source: the table is Piper's (NeurIPS 2021, §4). Here the target is
fixed and the number of devices is the value instead of an axis, so that one bisection over targets replaces the table.
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Ints, Longs
from partita.engines.kernels.compiled import called, compiled
from partita.engines.kernels.hybrid.arrays import HybridArrays, HybridWork, StageIndex
from partita.engines.kernels.hybrid.device_table import NONE, DeviceTable, Falls, close
from partita.engines.kernels.hybrid.machines import WHOLE, Machines, extend_by_groups
from partita.engines.kernels.hybrid.stages import (
    between,
    boundary,
    first_replicas,
    fits,
    known_to_fit,
    lacking,
    least_work,
    plain_boundary,
    reach,
    second_replicas,
    subset,
    sync_factor,
    with_rounding,
)

#: A trace holds for each stage: inner set, outer set, degree number, replicas.
STEP = 4


@compiled
def decide(w: HybridWork, m: Machines | None, table: DeviceTable, target: float) -> int:
    """Fill ``fewest``, ``least`` and ``ahead``; ``target`` is the largest time per sample of a stage.

    With machines, the table counts these, the target also holds for links between them, and ``m.group`` is filled.
    Returns the fewest for the whole model, NONE if there are too few, -1 if stopped.
    """
    h, fewest, least, ahead = w.arrays, table.fewest, table.least, table.ahead
    sets, width = fewest.shape
    target = with_rounding(h, target)
    carry = least.shape[0] == sets
    outers = np.empty(sets, dtype=np.int32)
    falls = Falls(np.empty(width, dtype=np.int32), np.empty(width, dtype=np.int32), np.empty(width))
    fewest[:] = NONE
    fewest[0, :] = 0
    if carry:
        least[:] = np.inf
        least[0, :] = 0.0
    # What one of those counted does within the target.
    one = target if m is None else m.size[0] * target
    if m is None:
        look_ahead(h, target, table.limits[0], ahead, w.stop)
    else:
        for i in range(sets):
            ahead[i] = int(min(np.ceil(h.rest[i] / one - WHOLE), float(NONE)))
    for i in range(sets - 1):
        if w.stop[0] != 0:
            return -1
        if ahead[0] > table.limits[0]:
            return NONE
        points = close(table, i, ahead[i], falls)
        if points > 0:
            spare = table.limits[falls.at[0]] - falls.held[points - 1]
            count = supersets(h, ahead, i, one, spare, outers)
            if m is None:
                extend(w, table, falls, points, i, outers[:count], target)
            else:
                extend_by_groups(w, m, table, falls, points, i, outers[:count], target)
    close(table, sets - 1, 0, falls)
    return -1 if w.stop[0] != 0 else int(fewest[sets - 1, width - 1])


@compiled
def look_ahead(h: HybridArrays, target: float, devices: int, ahead: Ints, stop: Longs) -> None:
    """Fill ``ahead`` (Z,): devices that the layers outside each set need at least, whatever memory and degrees allow.

    The same recursion from the other end, with the fewest replicas that the time of the fastest configurations admits.
    No entry is more than one beyond what the least device time inside leaves.
    """
    sets, ranks = h.work.shape[0], h.degree.shape[0]
    top = h.next_replicas.shape[0] - 2
    ahead[sets - 1] = 0
    for i in range(sets - 2, -1, -1):
        if stop[0] != 0:
            return
        # What is inside needs its device time; more than the devices left is as good as never.
        best = int(devices - np.ceil(least_work(h, 0, i) / target - WHOLE)) + 1
        floor = np.ceil(h.rest[i] / target - WHOLE)
        for o in range(i + 1, sets):
            if best <= floor:
                break
            least = least_work(h, i, o) / target - WHOLE
            if least >= best:
                break
            if max(least, 1.0) + ahead[o] >= best or not subset(h.members, i, o):
                continue
            for r in range(ranks):
                t = h.degree[r]
                if lacking(h, r, i, o) or t + ahead[o] >= best:
                    continue
                one = between(h.time, r, i, o) + boundary(h, i, o, r)
                d = first_replicas(h, target, one, between(h.weight, r, i, o))
                if d <= top:
                    best = min(best, d * t + ahead[o])
        ahead[i] = best


@compiled
def supersets(h: HybridArrays, ahead: Ints, inner: int, target: float, devices: int, found: Ints) -> int:
    """List the supersets of a set whose other layers and whose stage the devices left can run; returns their number."""
    count = 0
    for outer in range(inner + 1, h.work.shape[0]):
        time = least_work(h, inner, outer)
        if time > devices * target:
            break
        spare = devices - ahead[outer]
        if spare >= 1 and time <= spare * target and subset(h.members, inner, outer):
            found[count] = outer
            count += 1
    return count


@compiled
def known_better(into: Ints, begin: int, used: int, replicas: int, degree: int) -> bool:
    """Whether a row has an entry with no more of the sum and no more devices than a stage would add to some state."""
    replicas = max(replicas, 1)
    for column in range(begin + 1, begin + replicas + 1):  # noqa: SIM110 - a plain loop compiles
        if into[column] <= used + replicas * degree:
            return True
    return False


@compiled
def extend(
    w: HybridWork, table: DeviceTable, falls: Falls, points: int, inner: int, outers: Ints, target: float
) -> None:
    """Try the stages between one set and some supersets, with every pair of degrees that can help.

    From each place where the row of the inner set falls, and for each degree t, only the smallest d that fits helps: a
    larger one takes more devices and leaves less of the sum. Beyond one replica, larger d also leave more time and have
    fewer microbatches in flight, so that bisection finds the smallest, which does not fall from place to place. Calls
    that pass all arrays are kept out of the loops: each costs more than the rest of an iteration.
    """
    h, known = w.arrays, w.known
    fewest, least, limits, ahead = table.fewest, table.least, table.limits, table.ahead
    at, held, slowest = falls.at, falls.held, falls.slowest
    top, sets, ranks = fewest.shape[1] - 1, fewest.shape[0], h.degree.shape[0]
    allowed, memory, batch, per_batch = h.next_replicas, h.limits[0], h.limits[1], h.limits[2] != 0.0
    free, ptr, highs = known.free, known.ptr, known.high
    remember, carry = ptr.shape[0] > 1, least.shape[0] == sets
    best = held[points - 1]
    for r in range(ranks):
        t = h.degree[r]
        uniform = h.uniform[r] != 0
        for outer in outers:
            spare = limits[at[0]] - ahead[outer]
            if t > spare - best or lacking(h, r, inner, outer):
                continue
            most = min((spare - best) // t, top - at[0])
            compute = between(h.time, r, inner, outer)
            if compute > most * target:
                continue
            if not remember and known_better(fewest[outer], at[0], best, int(np.ceil(compute / target - WHOLE)), t):
                continue
            one = compute + boundary(h, inner, outer, r)
            weight = between(h.weight, r, inner, outer)
            first = first_replicas(h, target, one, weight)
            if first > most:
                continue
            second = first if first > 1 else second_replicas(h, target, one, weight)
            active, fixed = between(h.active, r, inner, outer), between(h.fixed, r, inner, outer)
            shared = between(h.sharded, r, inner, outer)
            into, carried = fewest[outer], least[outer if carry else 0]
            entry = known.kind[inner * sets + outer] * ranks + r if remember else 0
            falling = uniform and (not per_batch or 4.0 * weight < batch * target)
            for p in range(points):
                begin, used = at[p], held[p]
                most = min((limits[begin] - ahead[outer] - used) // t, top - begin)
                if not remember:
                    # From some d on, an entry that is there has no more devices and no more of the sum.
                    for column in range(begin + 1, begin + most + 1):
                        if column > begin + most:
                            break
                        if into[column] < NONE:
                            most = min(most, max(column - begin, -((used - into[column]) // t)) - 1)
                if most < first:
                    continue
                # Candidates: 1, then the least that time or the last place allows, then by bisection or one by one.
                d, bisecting, found = first if first == 1 else second, False, 0
                low, high = 0, 0
                while d <= most:
                    in_flight = (begin + d - 1) // d + 1
                    sync = sync_factor(h, d)
                    spent = one - compute + sync * weight
                    good = spent + compute <= d * target
                    if good and not (uniform and active * in_flight + fixed + shared / d <= memory):
                        budget = d * target - spent
                        if uniform and remember:
                            if in_flight > free[entry]:
                                good = known_to_fit(w, entry, StageIndex(inner, outer, r), in_flight, budget)
                        else:
                            if not uniform:
                                budget = d * target - plain_boundary(h, inner, outer)
                            good = fits(w, StageIndex(inner, outer, r), sync, d, in_flight, budget)
                    if not falling:
                        if good:
                            found = d
                            break
                        d = allowed[d + 1]
                    elif bisecting:
                        if good:
                            high, found = (low + high) // 2, d
                        else:
                            low = d + 1
                    elif good:
                        found = d
                        break
                    elif d == 1:
                        d = second
                    else:
                        bisecting, low, high = True, d + 1, most + 1
                    if bisecting:
                        while low < high and allowed[(low + high) // 2] > most:
                            high = (low + high) // 2
                        if low >= high:
                            break
                        d = allowed[(low + high) // 2]
                if falling and found != 1:
                    second = max(second, found if found > 0 else allowed[most + 1])
                if found == 0:
                    continue
                cost = used + found * t
                if cost > limits[begin + found] - ahead[outer]:
                    continue
                if not carry:
                    into[begin + found] = min(into[begin + found], cost)
                elif cost <= into[begin + found]:
                    in_flight = (begin + found - 1) // found + 1
                    duration = compute
                    if in_flight > free[entry]:
                        duration = highs[ptr[entry] + in_flight - free[entry] - 1]
                    sync = sync_factor(h, found)
                    duration = max(slowest[p], (duration + one - compute + sync * weight) / found)
                    if cost < into[begin + found] or duration < carried[begin + found]:
                        into[begin + found] = cost
                        carried[begin + found] = duration


@compiled
def trace(w: HybridWork, target: float, fewest: Ints, steps: Ints) -> int:
    """Follow a filled table back from the whole model, whatever its degrees sum to.

    Writes the stages into ``steps`` (stages, STEP), first stage first, and returns their number; -1 if the table does
    not hold a plan.
    """
    # Remembered times were summed in another order.
    for _ in range(10):
        target = with_rounding(w.arrays, target)
    outer, column, count = fewest.shape[0] - 1, fewest.shape[1] - 1, 0
    while outer > 0:
        while column > 0 and fewest[outer, column - 1] == fewest[outer, column]:
            column -= 1
        step = steps[count]
        if fewest[outer, column] >= NONE or not first_stage(w, target, fewest, outer, column, step):
            return -1
        outer, column, count = step[0], column - step[3], count + 1
    return count


@called
def first_stage(w: HybridWork, target: float, fewest: Ints, outer: int, column: int, step: Ints) -> bool:
    """Find a stage that the entry of a set and a sum comes from, and write it into ``step``; whether there is one."""
    h, value = w.arrays, fewest[outer, column]
    for inner in range(outer):
        if fewest[inner, column] >= value or not subset(h.members, inner, outer):
            continue
        for r in range(h.degree.shape[0]):
            if lacking(h, r, inner, outer):
                continue
            t, compute, weight = h.degree[r], between(h.time, r, inner, outer), between(h.weight, r, inner, outer)
            one = compute + boundary(h, inner, outer, r)
            d = first_replicas(h, target, one, weight)
            while d <= column and d * t <= value:
                sync = sync_factor(h, d)
                if fewest[inner, column - d] + d * t == value and one + sync * weight <= d * target:
                    spent = one - compute + sync * weight if h.uniform[r] else plain_boundary(h, inner, outer)
                    need = -(-column // d)
                    if reach(w, StageIndex(inner, outer, r), sync, d, need, need, d * target - spent) == need:
                        step[0], step[1], step[2], step[3] = inner, outer, r, d
                        return True
                d = h.next_replicas[d + 1]
    return False
