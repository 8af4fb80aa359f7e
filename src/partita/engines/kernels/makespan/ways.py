"""What a block between two operators takes at least, for every way to place some of its operators."""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.makespan.arrays import MakespanArrays
from partita.engines.kernels.makespan.relaxations import find_labels


@compiled
def longest_chains(
    a: MakespanArrays,
    able: Bools,
    order: Longs,
    heavy: Longs,
    ways: Longs,
    entry: int,
    end: int,
    stop: Longs,
    found: Floats,
) -> None:
    """Fill ``found`` (ways, D or 1, D or 1) with the longest chains, or what one device works, by devices of the ends.

    ``able`` (n, D) says where operators may be, ``order`` is topological. A way (h,) has a device for each of the
    ``heavy`` (h,) classes. ``entry`` and ``end`` are the first and the last operator, −1 for none, which then has one
    place in ``found``. Any value but 0 of ``stop`` (1,) leaves the rest 0, which holds, too.
    """
    n, devices = a.time.shape
    time, here = np.empty((n, devices)), np.empty((n, devices))
    head, tail = np.empty((devices, n, devices)), np.empty((devices, n, devices))
    scratch, work = np.empty((n, devices)), np.empty(devices)
    place = np.full(a.group.ptr.shape[0] - 1, -1)
    for h in range(heavy.shape[0]):
        place[heavy[h]] = h
    found[:] = 0.0
    for way in range(ways.shape[0]):
        if stop[0] != 0:
            return
        work[:] = 0.0
        for v in range(n):
            h = place[a.group.of[v]]
            for d in range(devices):
                time[v, d] = a.time[v, d] if able[v, d] and (h < 0 or ways[way, h] == d) else math.inf
            if h >= 0:
                work[ways[way, h]] += a.time[v, ways[way, h]]
        for side in range(2):
            at = entry if side == 0 else end
            for d in range(found.shape[1 + side]):
                here[:] = time
                if at >= 0:
                    for v in range(n):
                        if a.group.of[v] == a.group.of[at]:
                            here[v, :d] = math.inf
                            here[v, d + 1 :] = math.inf
                if side == 0:
                    find_labels(a, order, here, head[d], scratch)
                else:
                    find_labels(a, order, here, scratch, tail[d])
        for c in range(found.shape[1]):
            for d in range(found.shape[2]):
                longest = work.max() if a.serial[0] else 0.0
                for v in range(n):
                    least = math.inf
                    for x in range(devices):
                        least = min(least, head[c, v, x] + tail[d, v, x])
                    longest = max(longest, least)
                found[way, c, d] = longest


@compiled
def cheapest_ways(
    cost: Floats, each: Floats, asked: Floats, visits: Floats, entry: bool, end: bool, best: Floats, way: Longs
) -> None:
    """Fill ``best`` (D or 1, D or 1) with the least over all ways for the devices of the ends, and ``way`` with which.

    ``cost`` (ways, D or 1, D or 1) is what they take, ``each`` (ways,) is added to it, and ``asked`` (ways, D) for the
    devices of the ends there are (``entry``, ``end``), once if they are the same; else what the visit of the last one
    is paid, ``visits`` (D,), is taken off.
    """
    best[:] = math.inf
    way[:] = 0
    for w in range(cost.shape[0]):
        for c in range(cost.shape[1]):
            first = each[w] + (asked[w, c] if entry else 0.0)
            for d in range(cost.shape[2]):
                found = first + cost[w, c, d]
                if end and not (entry and c == d):
                    found += asked[w, d] - visits[d]
                if found < best[c, d]:
                    best[c, d] = found
                    way[c, d] = w
