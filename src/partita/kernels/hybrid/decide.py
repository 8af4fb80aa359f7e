"""Decisions about hybrid plans: the fewest devices that run a suffix set with every stage within a target.

Source: the table over suffix sets is Piper's (NeurIPS 2021, §4). Here the target is fixed and the number of devices is
the value instead of an axis, so that one bisection over targets replaces the table.
"""

from __future__ import annotations

import numpy as np

from partita.kernels.compiled import compiled
from partita.kernels.hybrid.arrays import HybridArrays, HybridKnown, HybridScratch
from partita.kernels.hybrid.stages import (
    ROUNDING,
    boundary,
    first_replicas,
    fits,
    jumping,
    learn,
    plain_boundary,
    second_replicas,
)
from partita.kernels.throughput.arrays import Floats, Ints, Longs, Words

#: More devices than there are.
NONE = 1 << 30


@compiled
def decide(
    h: HybridArrays,
    s: HybridScratch,
    known: HybridKnown,
    target: float,
    limits: Ints,
    fewest: Ints,
    least: Floats,
    ahead: Ints,
    stop: Longs,
) -> int:
    """Fill ``fewest`` (Z, S + 1): the fewest devices that run each set with degrees summing to at most s.

    ``target`` is the largest time per sample of a stage. Only plans are of interest that have at most ``limits[s]``
    devices, which never rises, for all layers if the degrees of some sets inside add up to s: other entries may stay at
    NONE. ``ahead`` (Z,) is filled with the devices that the layers outside need at least. If ``least`` has the shape
    of ``fewest`` it becomes the smallest bottleneck of the plans that attain it: a plan with the fewest devices for a
    set and a sum has the fewest for the sets inside it, too, so that the bottleneck follows the same recursion; this
    needs every degree uniform and ``fill_times`` first. Returns the fewest devices for the whole model, NONE if there
    are too few, -1 if ``stop`` was set.
    """
    sets, width = fewest.shape
    target *= 1.0 + ROUNDING
    carry = least.shape[0] == sets
    outers = np.empty(sets, dtype=np.int32)
    # Where a row falls: the sum of degrees, the devices and the bottleneck.
    at, held, slowest = np.empty(width, dtype=np.int32), np.empty(width, dtype=np.int32), np.empty(width)
    fewest[:] = NONE
    fewest[0, :] = 0
    if carry:
        least[:] = np.inf
        least[0, :] = 0.0
    devices = limits[0]
    if look_ahead(h, target, devices, ahead, stop) > devices:
        return -1 if stop[0] != 0 else NONE
    for i in range(sets - 1):
        if stop[0] != 0:
            return -1
        points = close(fewest[i], least[i if carry else 0], carry, limits, ahead[i], at, held, slowest)
        if points > 0:
            best = held[points - 1]
            count = supersets(h.work, ahead, h.members, i, target, limits[at[0]] - best, outers)
            reached = outers[:count]
            extend(h, s, known, i, reached, target, limits, fewest, least, at, held, slowest, points, ahead, stop)
    close(fewest[sets - 1], least[sets - 1 if carry else 0], carry, limits, 0, at, held, slowest)
    return int(fewest[sets - 1, width - 1])


@compiled
def close(
    row: Ints, times: Floats, carry: bool, limits: Ints, ahead: int, at: Ints, held: Ints, slowest: Floats
) -> int:
    """Make a row fall, drop entries beyond the limits, and list where it falls; returns their number."""
    best, worst, count = NONE, np.inf, 0
    for k in range(row.shape[0]):
        time = times[k] if carry else 0.0
        if row[k] <= limits[k] - ahead and (row[k] < best or (row[k] == best and time < worst)):
            best, worst = row[k], time
            at[count], held[count], slowest[count] = k, best, worst
            count += 1
        row[k] = best
        if carry:
            times[k] = worst
    return count


@compiled
def look_ahead(h: HybridArrays, target: float, devices: int, ahead: Ints, stop: Longs) -> int:
    """Fill ``ahead`` (Z,): devices that the layers outside each set need at least, whatever memory and degrees allow.

    The same recursion from the other end, with the fewest replicas that the time of the fastest configurations admits.
    No entry is more than one beyond what the least device time inside leaves. Returns the entry of the empty set.
    """
    sets, ranks, words = h.work.shape[0], h.degree.shape[0], h.members.shape[1]
    top = h.next_replicas.shape[0] - 2
    per_batch = h.limits[2] != 0.0
    work, members = h.work, h.members
    ahead[sets - 1] = 0
    for i in range(sets - 2, -1, -1):
        if stop[0] != 0:
            return NONE
        # What is inside needs its device time; more than the devices left is as good as never.
        best = int(devices - np.ceil(work[i] / target - 1e-6)) + 1
        floor = np.ceil(h.rest[i] / target - 1e-6)
        for o in range(i + 1, sets):
            if best <= floor:
                break
            least = (work[o] - work[i]) / target - 1e-6
            if least >= best:
                break
            if max(least, 1.0) + ahead[o] >= best:
                continue
            inside = True
            for word in range(words):
                if members[i, word] & ~members[o, word] != 0:
                    inside = False
                    break
            if not inside:
                continue
            for r in range(ranks):
                t = h.degree[r]
                if h.missing[r, o] != h.missing[r, i] or t + ahead[o] >= best:
                    continue
                one = h.time[r, o] - h.time[r, i] + boundary(h, i, o, r)
                d = first_replicas(h.next_replicas, per_batch, target, one, h.weight[r, o] - h.weight[r, i])
                if d <= top:
                    best = min(best, d * t + ahead[o])
        ahead[i] = best
    return int(ahead[0])


@compiled
def known_better(into: Ints, begin: int, used: int, replicas: int, degree: int) -> bool:
    """Whether a row has an entry with no more of the sum and no more devices than a stage would add to some state."""
    replicas = max(replicas, 1)
    for column in range(begin + 1, begin + replicas + 1):  # noqa: SIM110 - a plain loop compiles
        if into[column] <= used + replicas * degree:
            return True
    return False


@compiled
def supersets(work: Floats, ahead: Ints, members: Words, inner: int, target: float, devices: int, found: Ints) -> int:
    """List the supersets of a set whose other layers and whose stage the devices left can run; returns their number."""
    count = 0
    words = members.shape[1]
    for outer in range(inner + 1, work.shape[0]):
        time = work[outer] - work[inner]
        if time > devices * target:
            break
        spare = devices - ahead[outer]
        if spare < 1 or time > spare * target:
            continue
        inside = True
        for word in range(words):
            if members[inner, word] & ~members[outer, word] != 0:
                inside = False
                break
        if inside:
            found[count] = outer
            count += 1
    return count


@compiled
def extend(
    h: HybridArrays,
    s: HybridScratch,
    known: HybridKnown,
    inner: int,
    outers: Ints,
    target: float,
    limits: Ints,
    fewest: Ints,
    least: Floats,
    at: Ints,
    held: Ints,
    slowest: Floats,
    points: int,
    ahead: Ints,
    stop: Longs,
) -> None:
    """Try the stages between one set and some supersets, with every pair of degrees that can help.

    From each place where the row of the inner set falls, and for each degree t, only the smallest d that fits helps: a
    larger one takes more devices and leaves less of the sum. Beyond one replica, larger d also leave more time and have
    fewer microbatches in flight, so that bisection finds the smallest, which does not fall from place to place. Calls
    that pass all arrays are kept out of the loops: each costs more than the rest of an iteration.
    """
    top, sets, ranks = fewest.shape[1] - 1, fewest.shape[0], h.degree.shape[0]
    missing, time, weights, active, fixed, sharded = h.missing, h.time, h.weight, h.active, h.fixed, h.sharded
    enter, leave, allowed = h.enter, h.leave, h.next_replicas
    memory, batch, per_batch = h.limits[0], h.limits[1], h.limits[2] != 0.0
    cross_ptr, cross, heads, members = h.cross_ptr, h.cross, h.target, h.members
    kinds, free, ptr, lows, highs = known.kind, known.free, known.ptr, known.low, known.high
    remember, carry = ptr.shape[0] > 1, least.shape[0] == sets
    best = held[points - 1]
    for r in range(ranks):
        t = h.degree[r]
        uniform = h.uniform[r] != 0
        edge_enter, edge_leave = h.edge_enter[r], h.edge_leave[r]
        for outer in outers:
            spare = limits[at[0]] - ahead[outer]
            if t > spare - best or missing[r, outer] != missing[r, inner]:
                continue
            most = min((spare - best) // t, top - at[0])
            compute = time[r, outer] - time[r, inner]
            if compute > most * target:
                continue
            if not remember and known_better(fewest[outer], at[0], best, int(np.ceil(compute / target - 1e-6)), t):
                continue
            jump = jumping(cross_ptr, cross, heads, members, edge_enter, edge_leave, inner, outer)
            one = compute + max(0.0, enter[r, outer] + leave[r, inner] - jump)
            weight = weights[r, outer] - weights[r, inner]
            first = first_replicas(allowed, per_batch, target, one, weight)
            if first > most:
                continue
            second = first if first > 1 else second_replicas(allowed, per_batch, target, one, weight)
            per_count, base = active[r, outer] - active[r, inner], fixed[r, outer] - fixed[r, inner]
            shared = sharded[r, outer] - sharded[r, inner]
            into, carried = fewest[outer], least[outer if carry else 0]
            entry = kinds[inner * sets + outer] * ranks + r if remember else 0
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
                    sync = 4.0 * (d - 1) / (batch if per_batch else d)
                    spent = one - compute + sync * weight
                    good = spent + compute <= d * target
                    if good and not (uniform and per_count * in_flight + base + shared / d <= memory):
                        if uniform and remember:
                            k = ptr[entry] + in_flight - free[entry] - 1
                            if in_flight > free[entry]:
                                good = k < ptr[entry + 1]
                                budget = d * target - spent
                                if good and not highs[k] <= budget and not lows[k] > budget:
                                    learn(h, s, known, k, inner, outer, r, in_flight, budget, stop)
                                good = good and highs[k] <= budget
                        else:
                            if not uniform:
                                spent = plain_boundary(h, inner, outer)
                            good = fits(h, s, inner, outer, r, sync, d, in_flight, d * target - spent, stop)
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
                    sync = 4.0 * (found - 1) / (batch if per_batch else found)
                    duration = max(slowest[p], (duration + one - compute + sync * weight) / found)
                    if cost < into[begin + found] or duration < carried[begin + found]:
                        into[begin + found] = cost
                        carried[begin + found] = duration
