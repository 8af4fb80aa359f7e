"""What single stages cost and hold: boundaries, microbatches in flight, and the least times that are remembered."""

from __future__ import annotations

import numpy as np

from partita.kernels.compiled import compiled
from partita.kernels.hybrid.arrays import HybridArrays, HybridKnown, HybridScratch
from partita.kernels.hybrid.knapsack import bracket, cheapest, fill_items
from partita.kernels.throughput.arrays import Floats, Ints, Longs, Words

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
    replicas: int,
    in_flight: int,
    budget: float,
    stop: Longs,
) -> bool:
    """Whether some choice of configurations keeps memory and a time of ``budget``; ``sync`` is the weights' factor.

    Where sharded memory differs from configuration to configuration, the smallest of it only makes a bound.
    """
    y = h.segment[r, min(in_flight, h.segment.shape[1] - 1)]
    active = h.small_active[y, outer] - h.small_active[y, inner]
    fixed = h.small_fixed[y, outer] - h.small_fixed[y, inner] + (h.sharded[r, outer] - h.sharded[r, inner]) / replicas
    if active * in_flight + fixed > h.limits[0]:
        return False
    if h.uniform[r] and h.small_time[y, outer] - h.small_time[y, inner] <= budget:
        return True
    count, total, missing = fill_items(h, s, inner, outer, r, replicas, in_flight, sync)
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
    count, total, missing = fill_items(h, s, inner, outer, r, 1, in_flight, 0.0)
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
    replicas: int,
    low: int,
    high: int,
    budget: float,
    stop: Longs,
) -> int:
    """The most microbatches in flight, from ``low`` to ``high``, that a stage can hold; less than ``low`` if none."""
    if h.uniform[r]:
        active, fixed = h.active[r, outer] - h.active[r, inner], h.fixed[r, outer] - h.fixed[r, inner]
        fixed += (h.sharded[r, outer] - h.sharded[r, inner]) / replicas
        if active * high + fixed <= h.limits[0]:
            return high
        if active > 0.0 and active * low + fixed <= h.limits[0]:
            # The largest that needs no choice; the division may round either way.
            free = int((h.limits[0] - fixed) / active)
            free = min(max(free, low), high)
            while free > low and active * free + fixed > h.limits[0]:
                free -= 1
            low = free + 1
    if low > high or fits(h, s, inner, outer, r, sync, replicas, high, budget, stop):
        return high
    high -= 1
    while low <= high:
        middle = (low + high + 1) // 2 if low < high else low
        if fits(h, s, inner, outer, r, sync, replicas, middle, budget, stop):
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
    return second_replicas(allowed, per_batch, target, one, weight)


@compiled
def second_replicas(allowed: Longs, per_batch: bool, target: float, one: float, weight: float) -> int:
    """The same among two and more, where time only falls with d, or does not allow any."""
    top = allowed.shape[0] - 1
    if per_batch or weight == 0.0:
        least = one / target * (1.0 - ROUNDING)
    else:
        # T·d² − (A + 4W)·d + 4W must not be negative: beyond the larger root. The smaller one is below 2.
        both = one + 4.0 * weight
        least = (both + np.sqrt(max(0.0, both * both - 16.0 * weight * target))) / (2.0 * target) * (1.0 - 1e-9)
    if not least < top:
        return int(top)
    return int(allowed[max(2, int(np.ceil(least)))])


@compiled
def fill_times(h: HybridArrays, s: HybridScratch, known: HybridKnown, stop: Longs) -> None:
    """Solve every knapsack there is, so that ``known.low`` and ``known.high`` are the least times of all stages."""
    ranks = h.degree.shape[0]
    for entry in range(known.free.shape[0]):
        r = entry % ranks
        inner, outer = known.inner[entry // ranks], known.outer[entry // ranks]
        for place in range(known.ptr[entry], known.ptr[entry + 1]):
            if stop[0] != 0:
                return
            y = known.free[entry] + 1 + place - known.ptr[entry]
            count, total, missing = fill_items(h, s, inner, outer, r, 1, y, 0.0)
            time = total + cheapest(h, s, r, count, missing, np.inf, False, stop)
            known.low[place], known.high[place] = time, time
