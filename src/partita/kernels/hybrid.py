"""Decisions about hybrid plans: the fewest devices that run a suffix set with every stage within a target.

Source: the table over suffix sets is Piper's (NeurIPS 2021, §4). Here the target is fixed and the number of devices is
the value instead of an axis, so that one bisection over targets replaces the table.
"""

from __future__ import annotations

import numpy as np

from partita.kernels.arrays import Floats, Ints, Longs, Words
from partita.kernels.compiled import compiled
from partita.kernels.hybrid_arrays import HybridArrays, HybridKnown, HybridScratch
from partita.kernels.hybrid_knapsack import bracket, cheapest, fill_items

__all__ = ["NONE", "decide", "lay_out"]

#: More devices than there are.
NONE = 1 << 30
#: Rounding of sums over sets: a stage this much over the target still fits.
ROUNDING = 1e-12


@compiled
def boundary(h: HybridArrays, inner: int, outer: int, r: int) -> float:
    """Time to move what crosses the boundary of a stage, for one microbatch and the fastest configurations."""
    jump = jumping(h.cross_ptr, h.cross, h.target, h.members, h.edge_enter[r], h.edge_leave[r], inner, outer)
    return float(max(h.enter[r, outer] + h.leave[r, inner] - jump, 0.0))


@compiled
def jumping(
    cross_ptr: Ints, cross: Ints, target: Ints, members: Words, enter: Floats, leave: Floats, inner: int, outer: int
) -> float:
    """What edges that jump over a stage add to the sums of its two sets."""
    total = 0.0
    one = np.uint64(1)
    for k in range(cross_ptr[outer], cross_ptr[outer + 1]):
        v = target[cross[k]]
        if members[inner, v >> 6] & (one << np.uint64(v & 63)) != 0:
            total += enter[cross[k]] + leave[cross[k]]
    return total


@compiled
def plain_boundary(h: HybridArrays, inner: int, outer: int) -> float:
    """The same without synchronisation inside the group."""
    total = 0.0
    one = np.uint64(1)
    for e in range(h.source.shape[0]):
        u, v = h.source[e], h.target[e]
        in_outer = h.members[outer, v >> 6] & (one << np.uint64(v & 63)) != 0
        in_inner = h.members[inner, v >> 6] & (one << np.uint64(v & 63)) != 0
        from_inner = h.members[inner, u >> 6] & (one << np.uint64(u & 63)) != 0
        from_outer = h.members[outer, u >> 6] & (one << np.uint64(u & 63)) != 0
        if (in_outer and not in_inner and not from_outer) or (in_inner and from_outer and not from_inner):
            total += h.edge_time[e]
    return total


@compiled
def sync_factor(h: HybridArrays, replicas: int) -> float:
    """How often each weight is moved for d microbatches."""
    return 4.0 * (replicas - 1) / (h.limits[1] if h.limits[2] != 0.0 else replicas)


@compiled
def fits(
    h: HybridArrays,
    s: HybridScratch,
    inner: int,
    outer: int,
    r: int,
    sync: float,
    in_flight: int,
    budget: float,
    stop: Longs,
) -> bool:
    """Whether some choice of configurations keeps memory and a time of ``budget``; ``sync`` is the weights' factor."""
    y = h.segment[r, min(in_flight, h.segment.shape[1] - 1)]
    active = h.small_active[y, outer] - h.small_active[y, inner]
    if active * in_flight + h.small_fixed[y, outer] - h.small_fixed[y, inner] > h.limits[0]:
        return False
    if h.uniform[r] and h.small_time[y, outer] - h.small_time[y, inner] <= budget:
        return True
    count, total, missing = fill_items(h, s, inner, outer, r, in_flight, sync)
    return cheapest(h, s, r, count, missing, budget - total, True, stop) < np.inf


@compiled
def capacity(h: HybridArrays, inner: int, outer: int, r: int, top: int, smallest: bool) -> int:
    """The most microbatches in flight, up to ``top``, with the fastest (or the smallest) configurations; 0 if none."""
    low, high = 0, top
    while low < high:
        y = (low + high + 1) // 2
        if smallest:
            k = h.segment[r, y]
            active, fixed = h.small_active[k, outer] - h.small_active[k, inner], h.small_fixed[k, outer]
            fixed -= h.small_fixed[k, inner]
        else:
            active, fixed = h.active[r, outer] - h.active[r, inner], h.fixed[r, outer] - h.fixed[r, inner]
        if active * y + fixed <= h.limits[0]:
            low = y
        else:
            high = y - 1
    return low


@compiled
def lay_out(h: HybridArrays, inners: Ints, outers: Ints, free: Ints, ptr: Longs) -> int:
    """Fill ``free`` and ``ptr`` of ``HybridKnown`` for kinds of stages, an example each; returns the entries needed."""
    ranks = h.degree.shape[0]
    top = h.segment.shape[1] - 1
    size = 0
    for kind in range(inners.shape[0]):
        inner, outer = inners[kind], outers[kind]
        for r in range(ranks):
            entry = kind * ranks + r
            ptr[entry] = size
            if h.uniform[r] and h.missing[r, outer] == h.missing[r, inner]:
                free[entry] = capacity(h, inner, outer, r, top, False)
                size += max(0, capacity(h, inner, outer, r, top, True) - free[entry])
    ptr[inners.shape[0] * ranks] = size
    return size


@compiled
def learn(
    h: HybridArrays,
    s: HybridScratch,
    known: HybridKnown,
    place: int,
    inner: int,
    outer: int,
    r: int,
    in_flight: int,
    budget: float,
    stop: Longs,
) -> None:
    """Extend what is known of the least time of a stage until it says whether the time is within the budget."""
    count, total, missing = fill_items(h, s, inner, outer, r, in_flight, 0.0)
    if np.isnan(known.low[place]):
        least, most = bracket(s, count, missing)
        known.low[place], known.high[place] = total + least, total + most
    if known.high[place] <= budget or known.low[place] > budget:
        return
    found = cheapest(h, s, r, count, missing, budget - total, True, stop)
    if found < np.inf:
        # Sums in another order may round beyond the budget that was just met.
        known.high[place] = min(known.high[place], total + found, budget)
    elif stop[0] == 0:
        known.low[place] = np.nextafter(budget, np.inf)


@compiled
def reach(
    h: HybridArrays,
    s: HybridScratch,
    inner: int,
    outer: int,
    r: int,
    sync: float,
    low: int,
    high: int,
    budget: float,
    stop: Longs,
) -> int:
    """The most microbatches in flight, from ``low`` to ``high``, that a stage can hold; less than ``low`` if none."""
    if h.uniform[r]:
        active, fixed = h.active[r, outer] - h.active[r, inner], h.fixed[r, outer] - h.fixed[r, inner]
        if active * high + fixed <= h.limits[0]:
            return high
        if active > 0.0 and active * low + fixed <= h.limits[0]:
            # The largest that needs no choice; the division may round either way.
            free = int((h.limits[0] - fixed) / active)
            free = min(max(free, low), high)
            while free > low and active * free + fixed > h.limits[0]:
                free -= 1
            low = free + 1
    if low > high or fits(h, s, inner, outer, r, sync, high, budget, stop):
        return high
    high -= 1
    while low <= high:
        middle = (low + high + 1) // 2 if low < high else low
        if fits(h, s, inner, outer, r, sync, middle, budget, stop):
            low = middle + 1
        else:
            high = middle - 1
    return high


@compiled
def subset(h: HybridArrays, inner: int, outer: int) -> bool:
    """Whether one set lies within another."""
    for word in range(h.members.shape[1]):  # noqa: SIM110 - a plain loop compiles
        if h.members[inner, word] & ~h.members[outer, word] != 0:
            return False
    return True


@compiled
def first_replicas(allowed: Longs, per_batch: bool, target: float, one: float, weight: float) -> int:
    """The smallest number of replicas that time alone allows: d·T must cover one microbatch."""
    if one <= target:
        return int(allowed[1])
    top = allowed.shape[0] - 1
    if per_batch or weight == 0.0:
        least = one / target * (1.0 - ROUNDING)
    else:
        # Beyond one replica, T·d² − (A + 4W)·d + 4W must not be negative: the larger root.
        both = one + 4.0 * weight
        least = (both + np.sqrt(max(0.0, both * both - 16.0 * weight * target))) / (2.0 * target) * (1.0 - 1e-9)
    if not least < top:
        return int(top)
    return int(allowed[max(1, int(np.ceil(least)))])


@compiled
def decide(
    h: HybridArrays,
    s: HybridScratch,
    known: HybridKnown,
    target: float,
    devices: int,
    fewest: Ints,
    low_s: Ints,
    high_s: Ints,
    stop: Longs,
) -> int:
    """Fill ``fewest`` (Z, S + 1): the fewest devices that run each set with degrees summing to at most s.

    ``target`` is the largest time per sample of a stage. Entries that cannot be completed within ``devices`` may stay
    at NONE. ``low_s`` and ``high_s`` (Z,) say where a row begins and stops to fall. Returns the fewest devices for the
    whole model, NONE if there are too few, -1 if ``stop`` was set.
    """
    sets, width = fewest.shape
    top = width - 1
    target *= 1.0 + ROUNDING
    last = sets - 1
    outers = np.empty(sets, dtype=np.int32)
    fewest[:] = NONE
    fewest[0, :] = 0
    for i in range(sets):
        if stop[0] != 0:
            return -1
        row = fewest[i]
        most = devices - h.rest[i] / target + 1e-6
        best = NONE
        low_s[i] = top + 1
        for k in range(width):
            if row[k] > most:
                row[k] = NONE
            if row[k] < best:
                best = row[k]
                high_s[i] = k
                if low_s[i] > top:
                    low_s[i] = k
            row[k] = best
        if best == NONE or i == last:
            continue
        low, high = low_s[i], high_s[i]
        if low >= top:
            continue
        count = supersets(h.work, h.rest, h.members, i, target, devices - best, outers)
        extend(h, s, known, i, outers[:count], target, devices - best, fewest, low, high, stop)
    return int(fewest[last, top])


@compiled
def first_within(row: Ints, low: int, high: int, limit: float) -> int:
    """The first place of a falling row from ``low`` to ``high`` whose value is within the limit; high + 1 if none."""
    high += 1
    while low < high:
        middle = (low + high) // 2
        if row[middle] <= limit:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def improve(into: Ints, row: Ints, begin: int, end: int, shift: int, cost: int) -> None:
    """``into[k] = min(into[k], row[k - shift] + cost)`` for k from ``begin`` to ``end``; ``into`` keeps falling."""
    if begin > end:
        return
    # Slices, because indices that cannot be negative let the compiler use vector instructions.
    here, there = into[begin : end + 1], row[begin - shift : end + 1 - shift]
    added = np.int32(cost)
    for k in range(here.shape[0]):
        here[k] = min(here[k], np.int32(there[k] + added))
    value = into[end]
    for k in range(end + 1, into.shape[0]):
        if into[k] <= value:
            break
        into[k] = value


@compiled
def supersets(work: Floats, rest: Floats, members: Words, inner: int, target: float, devices: int, found: Ints) -> int:
    """List the supersets of a set whose other layers and whose stage the devices left can run; returns their number."""
    count = 0
    words = members.shape[1]
    for outer in range(inner + 1, work.shape[0]):
        spare = np.floor(devices - rest[outer] / target + 1e-6)
        if spare < 1 or work[outer] - work[inner] > spare * target:
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
    devices: int,
    fewest: Ints,
    low_s: int,
    high_s: int,
    stop: Longs,
) -> None:
    """Try the stages between one set and some supersets, with every pair of degrees that can help.

    ``devices`` are left after the fewest that run the inner set. Calls that pass all arrays are kept out of the loops:
    each costs more than the rest of an iteration.
    """
    top, sets, ranks = fewest.shape[1] - 1, fewest.shape[0], h.degree.shape[0]
    row = fewest[inner]
    best = row[high_s]
    rest, missing, time, weights, active, fixed = h.rest, h.missing, h.time, h.weight, h.active, h.fixed
    enter, leave, allowed = h.enter, h.leave, h.next_replicas
    memory, batch, per_batch = h.limits[0], h.limits[1], h.limits[2] != 0.0
    cross_ptr, cross, heads, members = h.cross_ptr, h.cross, h.target, h.members
    kinds, free, ptr, lows, highs = known.kind, known.free, known.ptr, known.low, known.high
    remember = ptr.shape[0] > 1
    for r in range(ranks):
        t = h.degree[r]
        uniform = h.uniform[r] != 0
        edge_enter, edge_leave = h.edge_enter[r], h.edge_leave[r]
        for outer in outers:
            spare = int(devices - rest[outer] / target + 1e-6)
            if t > spare or missing[r, outer] != missing[r, inner]:
                continue
            most = min(spare // t, top - low_s)
            compute = time[r, outer] - time[r, inner]
            if compute > most * target:
                continue
            jump = jumping(cross_ptr, cross, heads, members, edge_enter, edge_leave, inner, outer)
            one = compute + max(0.0, enter[r, outer] + leave[r, inner] - jump)
            weight = weights[r, outer] - weights[r, inner]
            per_count, base = active[r, outer] - active[r, inner], fixed[r, outer] - fixed[r, inner]
            into = fewest[outer]
            entry = kinds[inner * sets + outer] * ranks + r if remember else 0
            covered = 0
            d = first_replicas(allowed, per_batch, target, one, weight)
            while d <= most:
                # For one degree t, a larger d costs devices and leaves less of s: it helps only where memory stopped a
                # smaller one, and never beyond the last fall of the inner row.
                begin, end = max(low_s + d, covered + 1), min(high_s + d, top)
                # Nor where too few devices would be left, or as few devices are known to do.
                begin = max(begin, d + first_within(row, low_s, high_s, spare + best - d * t))
                if begin <= end and row[end - d] + d * t >= into[begin]:
                    # Rows fall: what is known at the beginning is as good as the best here.
                    begin = end + 1
                while begin <= end and row[begin - d] + d * t >= into[begin]:
                    begin += 1
                while begin <= end and row[end - d] + d * t >= into[end]:
                    end -= 1
                sync = 4.0 * (d - 1) / (batch if per_batch else d)
                if begin <= end and one + sync * weight <= d * target:
                    high, low = -(-end // d), -(-begin // d)
                    budget = d * target - (one - compute + sync * weight)
                    if not uniform:
                        found = reach(
                            h, s, inner, outer, r, sync, low, high, d * target - plain_boundary(h, inner, outer), stop
                        )
                    elif per_count * high + base <= memory:
                        found = high
                    elif remember:
                        found = min(high, free[entry] + ptr[entry + 1] - ptr[entry])
                        low = max(low, free[entry] + 1)
                        while low <= found:
                            y = (low + found + 1) // 2
                            k = ptr[entry] + y - free[entry] - 1
                            if not highs[k] <= budget and not lows[k] > budget:
                                learn(h, s, known, k, inner, outer, r, y, budget, stop)
                            if highs[k] <= budget:
                                low = y + 1
                            else:
                                found = y - 1
                    else:
                        found = reach(h, s, inner, outer, r, sync, low, high, budget, stop)
                    hold = min(end, found * d)
                    improve(into, row, begin, hold, d, d * t)
                    covered = max(covered, hold)
                    if found == high:
                        break
                d = allowed[d + 1]
