"""Decisions about hybrid plans: the fewest devices that run a suffix set with every stage within a target.

Source: the table over suffix sets is Piper's (NeurIPS 2021, §4). Here the target is fixed and the number of devices is
the value instead of an axis, so that one bisection over targets replaces the table.
"""

from __future__ import annotations

import numpy as np

from partita.kernels.arrays import Ints, Longs
from partita.kernels.compiled import compiled
from partita.kernels.hybrid_arrays import HybridArrays, HybridScratch
from partita.kernels.hybrid_knapsack import cheapest, fill_items

__all__ = ["NONE", "STEP", "choose", "decide", "trace"]

#: More devices than there are.
NONE = 1 << 30
#: Rounding of sums over sets: a stage this much over the target still fits.
ROUNDING = 1e-12
#: A trace holds for each stage: inner set, outer set, degree number, replicas, replicas from here on.
STEP = 5


@compiled
def boundary(h: HybridArrays, inner: int, outer: int, r: int) -> float:
    """Time to move what crosses the boundary of a stage, for one microbatch and the fastest configurations."""
    total = h.enter[r, outer] + h.leave[r, inner]
    one = np.uint64(1)
    # Edges that jump over the stage are in both sums.
    for k in range(h.cross_ptr[outer], h.cross_ptr[outer + 1]):
        e = h.cross[k]
        v = h.target[e]
        if h.members[inner, v >> 6] & (one << np.uint64(v & 63)) != 0:
            total -= h.edge_enter[r, e] + h.edge_leave[r, e]
    return float(max(total, 0.0))


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
    d: int,
    in_flight: int,
    budget: float,
    stop: Longs,
) -> bool:
    """Whether some choice of configurations keeps memory and a time of ``budget`` for d microbatches."""
    y = h.segment[r, min(in_flight, h.segment.shape[1] - 1)]
    active = h.small_active[y, outer] - h.small_active[y, inner]
    if active * in_flight + h.small_fixed[y, outer] - h.small_fixed[y, inner] > h.limits[0]:
        return False
    if h.uniform[r] and h.small_time[y, outer] - h.small_time[y, inner] <= budget:
        return True
    count, total, missing = fill_items(h, s, inner, outer, r, in_flight, sync_factor(h, d))
    return cheapest(h, s, r, count, missing, budget - total, True, stop) < np.inf


@compiled
def reach(
    h: HybridArrays,
    s: HybridScratch,
    inner: int,
    outer: int,
    r: int,
    d: int,
    low: int,
    high: int,
    budget: float,
    stop: Longs,
) -> int:
    """The most microbatches in flight, from ``low`` to ``high``, that a stage can hold; low - 1 if none."""
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
    if low > high or fits(h, s, inner, outer, r, d, high, budget, stop):
        return high
    high -= 1
    while low <= high:
        middle = (low + high + 1) // 2 if low < high else low
        if fits(h, s, inner, outer, r, d, middle, budget, stop):
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
def first_replicas(h: HybridArrays, target: float, one: float, weight: float) -> int:
    """The smallest number of replicas that time alone allows: d·T must cover one microbatch."""
    if one <= target:
        return int(h.next_replicas[1])
    top = h.next_replicas.shape[0] - 1
    if h.limits[2] != 0.0 or weight == 0.0:
        least = one / target * (1.0 - ROUNDING)
    else:
        # Beyond one replica, T·d² − (A + 4W)·d + 4W must not be negative: the larger root.
        both = one + 4.0 * weight
        least = (both + np.sqrt(max(0.0, both * both - 16.0 * weight * target))) / (2.0 * target) * (1.0 - 1e-9)
    if not least < top:
        return int(top)
    return int(h.next_replicas[max(1, int(np.ceil(least)))])


@compiled
def decide(
    h: HybridArrays,
    s: HybridScratch,
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
        for j in range(i + 1, sets):
            work = h.work[j] - h.work[i]
            spare = int(devices - best - h.rest[j] / target + 1e-6)
            if spare < 1 or work > spare * target or not subset(h, i, j):
                continue
            extend(h, s, i, j, target, spare, fewest, low, high, stop)
    return int(fewest[last, top])


@compiled
def extend(
    h: HybridArrays,
    s: HybridScratch,
    inner: int,
    outer: int,
    target: float,
    spare: int,
    fewest: Ints,
    low_s: int,
    high_s: int,
    stop: Longs,
) -> None:
    """Try the stage between two sets on at most ``spare`` devices, with every pair of degrees that can help."""
    top = fewest.shape[1] - 1
    row, into = fewest[inner], fewest[outer]
    for r in range(h.degree.shape[0]):
        t = h.degree[r]
        if t > spare or h.missing[r, outer] != h.missing[r, inner]:
            continue
        most = min(spare // t, top - low_s)
        compute = h.time[r, outer] - h.time[r, inner]
        if compute > most * target:
            continue
        weight = h.weight[r, outer] - h.weight[r, inner]
        one = compute + boundary(h, inner, outer, r)
        covered = 0
        d = first_replicas(h, target, one, weight)
        while d <= most:
            # For one degree t, a larger d costs devices and leaves less of s: it helps only where memory stopped a
            # smaller one, and never beyond the last fall of the inner row.
            begin, end = max(low_s + d, covered + 1), min(high_s + d, top)
            sync = sync_factor(h, d)
            if begin <= end and one + sync * weight <= d * target:
                spent = one - compute + sync * weight
                if not h.uniform[r]:
                    spent = plain_boundary(h, inner, outer)
                high = -(-end // d)
                found = reach(h, s, inner, outer, r, d, -(-begin // d), high, d * target - spent, stop)
                hold = min(end, found * d)
                for k in range(begin, hold + 1):
                    into[k] = min(into[k], row[k - d] + d * t)
                covered = max(covered, hold)
                if found == high:
                    break
            d = h.next_replicas[d + 1]


@compiled
def trace(
    h: HybridArrays,
    s: HybridScratch,
    target: float,
    fewest: Ints,
    column: int,
    steps: Ints,
    stop: Longs,
) -> int:
    """Follow a filled table back from the whole model with degrees summing to at most ``column``.

    Writes the stages into ``steps`` (stages, STEP), first stage first, and returns their number; -1 if the table does
    not hold a plan.
    """
    sets = fewest.shape[0]
    target *= 1.0 + ROUNDING
    outer, count = sets - 1, 0
    while outer > 0:
        value = fewest[outer, column]
        if value >= NONE:
            return -1
        while column > 0 and fewest[outer, column - 1] == value:
            column -= 1
        found = False
        for inner in range(outer):
            if fewest[inner, column] >= value or not subset(h, inner, outer):
                continue
            for r in range(h.degree.shape[0]):
                t = h.degree[r]
                if h.missing[r, outer] != h.missing[r, inner]:
                    continue
                compute = h.time[r, outer] - h.time[r, inner]
                weight = h.weight[r, outer] - h.weight[r, inner]
                one = compute + boundary(h, inner, outer, r)
                d = first_replicas(h, target, one, weight)
                while d <= column and d * t <= value:
                    sync = sync_factor(h, d)
                    if fewest[inner, column - d] + d * t == value and one + sync * weight <= d * target:
                        spent = one - compute + sync * weight if h.uniform[r] else plain_boundary(h, inner, outer)
                        need = -(-column // d)
                        if reach(h, s, inner, outer, r, d, need, need, d * target - spent, stop) == need:
                            found = True
                            break
                    d = h.next_replicas[d + 1]
                if found:
                    steps[count, 0], steps[count, 1], steps[count, 2] = inner, outer, r
                    steps[count, 3], steps[count, 4] = d, column
                    break
            if found:
                break
        if not found:
            return -1
        count += 1
        column -= steps[count - 1, 3]
        outer = steps[count - 1, 0]
    return count


@compiled
def choose(
    h: HybridArrays, s: HybridScratch, inner: int, outer: int, r: int, d: int, in_flight: int, stop: Longs
) -> float:
    """Put the fastest choice of options that fits into ``s.best``, by layer; returns its time, or infinity."""
    count, total, missing = fill_items(h, s, inner, outer, r, in_flight, sync_factor(h, d))
    return total + cheapest(h, s, r, count, missing, np.inf, False, stop)
