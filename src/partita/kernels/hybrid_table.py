"""Decisions that also carry the smallest bottleneck among the plans with the fewest devices, for whole tables.

A plan with the fewest devices for a set and a sum of degrees has the fewest for the sets inside it, too: otherwise the
inner part could be exchanged for one with fewer. So the smallest bottleneck follows the same recursion.
"""

from __future__ import annotations

import numpy as np

from partita.kernels.arrays import Floats, Ints, Longs
from partita.kernels.compiled import compiled
from partita.kernels.hybrid import NONE, ROUNDING, boundary, first_replicas, supersets, sync_factor
from partita.kernels.hybrid_arrays import HybridArrays, HybridKnown, HybridScratch
from partita.kernels.hybrid_knapsack import cheapest, fill_items

__all__ = ["fill_times", "fill_with_least"]


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
            count, total, missing = fill_items(h, s, inner, outer, r, y, 0.0)
            time = total + cheapest(h, s, r, count, missing, np.inf, False, stop)
            known.low[place], known.high[place] = time, time


@compiled
def fill_with_least(
    h: HybridArrays,
    known: HybridKnown,
    s: HybridScratch,
    target: float,
    devices: int,
    fewest: Ints,
    least: Floats,
    stop: Longs,
) -> int:
    """As ``decide``, with ``least`` (Z, S + 1): the smallest bottleneck of the plans that attain ``fewest``.

    Needs ``fill_times`` first, and every degree uniform. Returns -1 if ``stop`` was set, else 0.
    """
    sets, width = fewest.shape
    top, last = width - 1, sets - 1
    outers = np.empty(sets, dtype=np.int32)
    target *= 1.0 + ROUNDING
    ranks = h.degree.shape[0]
    per_batch = h.limits[2] != 0.0
    fewest[:] = NONE
    least[:] = np.inf
    fewest[0, :] = 0
    least[0, :] = 0.0
    for i in range(sets):
        if stop[0] != 0:
            return -1
        row, worst = fewest[i], least[i]
        most_devices = devices - h.rest[i] / target + 1e-6
        for k in range(width):
            if row[k] > most_devices:
                row[k], worst[k] = NONE, np.inf
            if k > 0 and (row[k - 1] < row[k] or (row[k - 1] == row[k] and worst[k - 1] < worst[k])):
                row[k], worst[k] = row[k - 1], worst[k - 1]
        best = row[top]
        if best >= NONE or i == last:
            continue
        low_s = 0
        while row[low_s] >= NONE:
            low_s += 1
        # From the last place on where anything changes, more microbatches change nothing.
        high_s = top
        while high_s > low_s and row[high_s - 1] == row[high_s] and worst[high_s - 1] == worst[high_s]:
            high_s -= 1
        count = supersets(h.work, h.rest, h.members, i, target, devices - best, outers)
        for j in outers[:count]:
            spare = int(devices - best - h.rest[j] / target + 1e-6)
            into, carry = fewest[j], least[j]
            for r in range(ranks):
                t = h.degree[r]
                if t > spare or h.missing[r, j] != h.missing[r, i]:
                    continue
                compute = h.time[r, j] - h.time[r, i]
                most = min(spare // t, top - low_s)
                if compute > most * target:
                    continue
                weight = h.weight[r, j] - h.weight[r, i]
                moved = boundary(h, i, j, r)
                entry = known.kind[i * sets + j] * ranks + r
                free, begin_of = known.free[entry], known.ptr[entry]
                held = free + known.ptr[entry + 1] - begin_of
                d = first_replicas(h.next_replicas, per_batch, target, compute + moved, weight)
                while d <= most:
                    extra = moved + sync_factor(h, d) * weight
                    cost = d * t
                    begin, end = low_s + d, min(high_s + d, top)
                    if row[end - d] + cost > into[begin]:
                        # What is known with the smallest sum takes fewer devices than this ever does.
                        d = h.next_replicas[d + 1]
                        continue
                    while begin <= end:
                        y = -(-begin // d)
                        if y > held:
                            break
                        time = compute if y <= free else known.high[begin_of + y - free - 1]
                        time = (time + extra) / d
                        if time > target:
                            break
                        until = min(end, y * d if y > free else free * d)
                        for k in range(begin, until + 1):
                            value = row[k - d] + cost
                            if value <= into[k]:
                                slowest = max(time, worst[k - d])
                                if value < into[k] or slowest < carry[k]:
                                    into[k] = value
                                    carry[k] = slowest
                        begin = until + 1
                    d = h.next_replicas[d + 1]
    return 0
