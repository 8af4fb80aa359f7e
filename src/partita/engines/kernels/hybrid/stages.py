"""What single stages cost and hold: boundaries, microbatches in flight, and the least times that are remembered."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs, Words
from partita.engines.kernels.bits import has
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.hybrid.arrays import HybridArrays, HybridWork, StageIndex
from partita.engines.kernels.hybrid.knapsack import bracket, cheapest, fill_items
from partita.engines.kernels.rows import row_of
from partita.ground.rounding import TOLERANCE


@inlined
def between(sums: Floats, row: int, inner: int, outer: int) -> float:
    """What the layers between two sets add to a row of sums over sets, each of two parts: see ``HybridArrays``."""
    return float((sums[row, outer, 0] - sums[row, inner, 0]) + (sums[row, outer, 1] - sums[row, inner, 1]))


@inlined
def lacking(h: HybridArrays, r: int, inner: int, outer: int) -> bool:
    """Whether a layer between two sets lacks a degree."""
    return bool(h.missing[r, outer] != h.missing[r, inner])


@inlined
def least_work(h: HybridArrays, inner: int, outer: int) -> float:
    """Least device time of the layers between two sets."""
    return float((h.work[outer, 0] - h.work[inner, 0]) + (h.work[outer, 1] - h.work[inner, 1]))


@inlined
def with_rounding(h: HybridArrays, target: float) -> float:
    """A target that stages within it do not exceed, whichever way their times are added up."""
    return float(target * (1.0 + h.limits[3]))


@inlined
def subset(members: Words, inner: int, outer: int) -> bool:
    """Whether one set lies within another."""
    for word in range(members.shape[1]):  # noqa: SIM110 - a plain loop compiles
        if members[inner, word] & ~members[outer, word] != 0:
            return False
    return True


@inlined
def boundary(h: HybridArrays, inner: int, outer: int, r: int) -> float:
    """Time to move what crosses the boundary of a stage, for one microbatch and the fastest configurations."""
    return crossing(h, h.edge_enter[r], h.edge_leave[r], inner, outer)


@inlined
def crossing(h: HybridArrays, enter: Floats, leave: Floats, inner: int, outer: int) -> float:
    """A sum over the edges that enter a stage, and over those that leave it."""
    total = 0.0
    for e in row_of(h.cross_ptr, h.cross, outer):
        if not has(h.members[inner], h.target[e]):
            total += enter[e]
    for e in row_of(h.cross_ptr, h.cross, inner):
        if has(h.members[outer], h.source[e]):
            total += leave[e]
    return total


@compiled
def plain_boundary(h: HybridArrays, inner: int, outer: int) -> float:
    """The same as ``boundary`` without synchronisation inside the group."""
    return crossing(h, h.edge_time, h.edge_time, inner, outer)


@inlined
def sync_factor(h: HybridArrays, replicas: int) -> float:
    """How often each weight is moved for d microbatches."""
    return float(4.0 * (replicas - 1) / (h.limits[1] if h.limits[2] != 0.0 else replicas))


@compiled
def least_time(
    w: HybridWork, stage: StageIndex, replicas: int, in_flight: int, sync: float, limit: float, first: bool
) -> float:
    """The least time of a stage's layers, for one microbatch, that memory allows; infinite if above ``limit``.

    ``sync`` and ``replicas`` are those of ``fill_items``, ``first`` and ``stop`` those of ``cheapest``.
    """
    h, s = w.arrays, w.scratch
    count, total, missing, _ = fill_items(h, s, stage, replicas, in_flight, sync, h.limits[0])
    return total + cheapest(s, h.kind[stage.r], count, missing, limit - total, first, w.stop)


@compiled
def fits(w: HybridWork, stage: StageIndex, sync: float, replicas: int, in_flight: int, budget: float) -> bool:
    """Whether some choice of configurations keeps memory and a time of ``budget``; ``sync`` is the weights' factor.

    Where sharded memory differs from configuration to configuration, the smallest of it only makes a bound.
    """
    h = w.arrays
    inner, outer, r = stage
    y = h.segment[r, min(in_flight, h.segment.shape[1] - 1)]
    fixed = between(h.small_fixed, y, inner, outer) + between(h.sharded, r, inner, outer) / replicas
    if between(h.small_active, y, inner, outer) * in_flight + fixed > h.limits[0]:
        return False
    if h.uniform[r] and between(h.small_time, y, inner, outer) <= budget:
        return True
    return least_time(w, stage, replicas, in_flight, sync, budget, True) < np.inf


@compiled
def capacity(h: HybridArrays, inner: int, outer: int, r: int, top: int, smallest: bool) -> int:
    """The most microbatches in flight, up to ``top``, with the fastest (or the smallest) configurations; 0 if none."""
    low, high = 0, top
    while low < high:
        y = (low + high + 1) // 2
        if smallest:
            k = h.segment[r, y]
            active, fixed = between(h.small_active, k, inner, outer), between(h.small_fixed, k, inner, outer)
        else:
            active, fixed = between(h.active, r, inner, outer), between(h.fixed, r, inner, outer)
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
            if h.uniform[r] and not lacking(h, r, inner, outer):
                free[entry] = capacity(h, inner, outer, r, top, False)
                size += max(0, capacity(h, inner, outer, r, top, True) - free[entry])
    ptr[inners.shape[0] * ranks] = size
    return size


@compiled
def learn(w: HybridWork, place: int, stage: StageIndex, in_flight: int, budget: float) -> None:
    """Extend what is known of the least time of a stage until it says whether the time is within the budget."""
    h, s, known = w.arrays, w.scratch, w.known
    count, total, missing, _ = fill_items(h, s, stage, 1, in_flight, 0.0, h.limits[0])
    if np.isnan(known.low[place]):
        least, most = bracket(s, count, missing)
        known.low[place], known.high[place] = total + least, total + most
    if known.high[place] <= budget or known.low[place] > budget:
        return
    found = cheapest(s, h.kind[stage.r], count, missing, budget - total, True, w.stop)
    if found < np.inf:
        # Sums in another order may round beyond the budget that was just met.
        known.high[place] = min(known.high[place], total + found, budget)
    elif w.stop[0] == 0:
        known.low[place] = np.nextafter(budget, np.inf)


@inlined
def known_to_fit(w: HybridWork, entry: int, stage: StageIndex, in_flight: int, budget: float) -> bool:
    """As ``fits``, for an entry that remembers times, beyond what the fastest configurations hold."""
    known = w.known
    place = known.ptr[entry] + in_flight - known.free[entry] - 1
    if place >= known.ptr[entry + 1]:
        return False
    if not known.high[place] <= budget and not known.low[place] > budget:
        learn(w, place, stage, in_flight, budget)
    return bool(known.high[place] <= budget and known.high[place] < np.inf)


@compiled
def reach(w: HybridWork, stage: StageIndex, sync: float, replicas: int, low: int, high: int, budget: float) -> int:
    """The most microbatches in flight, from ``low`` to ``high``, that a stage can hold; less than ``low`` if none."""
    h = w.arrays
    inner, outer, r = stage
    if h.uniform[r]:
        active, fixed = between(h.active, r, inner, outer), between(h.fixed, r, inner, outer)
        fixed += between(h.sharded, r, inner, outer) / replicas
        if active * high + fixed <= h.limits[0]:
            return high
        if active > 0.0 and active * low + fixed <= h.limits[0]:
            # The largest that needs no choice; the division may round either way.
            free = int((h.limits[0] - fixed) / active)
            free = min(max(free, low), high)
            while free > low and active * free + fixed > h.limits[0]:
                free -= 1
            low = free + 1
    if low > high or fits(w, stage, sync, replicas, high, budget):
        return high
    high -= 1
    while low <= high:
        middle = (low + high + 1) // 2 if low < high else low
        if fits(w, stage, sync, replicas, middle, budget):
            low = middle + 1
        else:
            high = middle - 1
    return high


@inlined
def first_replicas(h: HybridArrays, target: float, one: float, weight: float) -> int:
    """The smallest number of replicas that time alone allows: d·T must cover one microbatch."""
    return int(h.next_replicas[1]) if one <= target else second_replicas(h, target, one, weight)


@inlined
def second_replicas(h: HybridArrays, target: float, one: float, weight: float) -> int:
    """The same among two and more, where time only falls with d, or does not allow any."""
    top = h.next_replicas.shape[0] - 1
    if h.limits[2] != 0.0 or weight == 0.0:
        least = one / target * (1.0 - h.limits[3])
    else:
        # T·d² − (A + 4W)·d + 4W must not be negative: beyond the larger root. The smaller one is below 2.
        both = one + 4.0 * weight
        least = (both + np.sqrt(max(0.0, both * both - 16.0 * weight * target))) / (2.0 * target) * (1.0 - TOLERANCE)
    if not least < top:
        return int(top)
    return int(h.next_replicas[max(2, int(np.ceil(least)))])


@compiled
def fill_times(w: HybridWork) -> None:
    """Solve every knapsack there is, so that ``known.low`` and ``known.high`` are the least times of all stages."""
    ranks, known = w.arrays.degree.shape[0], w.known
    for entry in range(known.free.shape[0]):
        kind, r = divmod(entry, ranks)
        stage = StageIndex(known.inner[kind], known.outer[kind], r)
        for place in range(known.ptr[entry], known.ptr[entry + 1]):
            if w.stop[0] != 0:
                return
            in_flight = known.free[entry] + 1 + place - known.ptr[entry]
            time = least_time(w, stage, 1, in_flight, 0.0, np.inf, False)
            known.low[place], known.high[place] = time, time
