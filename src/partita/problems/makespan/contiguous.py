"""An order of the operators cut into pieces, one for each device that is used: few transfers, and memory kept."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterator

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.problems.makespan.instance import MakespanInstance

#: Up to so many devices every order of them is tried; of more those by speed and as they are listed.
_ALL_ORDERS = 5


def contiguous_split(instance: MakespanInstance) -> list[int] | None:
    """The devices of the best row of pieces of a topological order, over orders of these; None if none keeps limits.

    A dynamic program over the places of cuts: a piece costs the times of its operators, a cut the transfer of all flows
    across it between the two devices beside it. That estimate ignores congestion and what could run at the same time.
    Classes that run together are never cut: places inside one are no cuts.
    """
    a, n = instance.arrays, instance.count
    order, rank = instance.order, [0] * instance.count
    for place, v in enumerate(order):
        rank[v] = place
    allowed = np.ones(n + 1, dtype=bool)
    for k in range(len(a.group.ptr) - 1):
        places = [rank[v] for v in a.group.members[a.group.ptr[k] : a.group.ptr[k + 1]]]
        allowed[min(places) + 1 : max(places) + 1] = False
    cuts = np.flatnonzero(allowed)
    held = np.concatenate([[0.0], np.cumsum(a.memory[order])])[cuts]
    time = np.where(np.isfinite(a.time), a.time, 0.0)[order]
    bans = np.concatenate([np.zeros((1, instance.devices)), np.cumsum(~np.isfinite(a.time[order]), axis=0)])[cuts]
    work = np.concatenate([np.zeros((1, instance.devices)), np.cumsum(time, axis=0)])[cuts]
    crossing = np.zeros((n + 2, instance.devices, instance.devices))
    for u, v, f in instance.edges:
        if f >= 0:
            crossing[rank[u] + 1] += a.cost[f]
            crossing[rank[v] + 1] -= a.cost[f]
    moved = np.maximum(np.cumsum(crossing, axis=0)[cuts], 0.0)
    best: tuple[float, list[tuple[int, int]]] | None = None
    for devices in _orders(instance):
        found = _pieces(devices, work, held, bans, a.limit, moved)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    if best is None:
        return None
    device, start = [0] * n, 0
    for d, end in best[1]:
        for v in order[start : cuts[end]]:
            device[v] = d
        start = int(cuts[end])
    return device


def _orders(instance: MakespanInstance) -> Iterator[tuple[int, ...]]:
    """Orders of the devices in which pieces may follow one another; alike devices in one order only."""
    a, count = instance.arrays, instance.devices
    alike = [
        next(
            c
            for c in range(d + 1)
            if a.limit[c] == a.limit[d]
            and np.array_equal(a.time[:, c], a.time[:, d])
            and np.array_equal(a.cost[:, c, :].sum(axis=1), a.cost[:, d, :].sum(axis=1))
        )
        for d in range(count)
    ]
    if count <= _ALL_ORDERS:
        seen: set[tuple[int, ...]] = set()
        for devices in itertools.permutations(range(count)):
            kinds = tuple(alike[d] for d in devices)
            if kinds not in seen:
                seen.add(kinds)
                yield devices
        return
    speed = np.where(np.isfinite(a.time), a.time, 0.0).sum(axis=0)
    fast = tuple(sorted(range(count), key=lambda d: (speed[d], d)))
    yield from dict.fromkeys([fast, fast[::-1], tuple(range(count))])


def _pieces(
    devices: tuple[int, ...], work: Floats, held: Floats, bans: Floats, limit: Floats, moved: Floats
) -> tuple[float, list[tuple[int, int]]] | None:
    """The best pieces on devices in a row, some of which may stay empty: the estimate, each device and its end."""
    last = len(held) - 1
    # The best way to have come to a cut with the piece before it on a device of the row; −1 for the start.
    value = np.full((len(devices) + 1, last + 1), math.inf)
    value[0, 0] = 0.0
    origin = np.zeros((len(devices) + 1, last + 1, 2), dtype=np.int64)
    for j, d in enumerate(devices, start=1):
        # Arriving at every cut from any earlier device.
        reach, source = value[0].copy(), np.zeros(last + 1, dtype=np.int64)
        for i in range(1, j):
            along = value[i] + moved[:, devices[i - 1], d]
            better = along < reach
            reach[better], source[better] = along[better], i
        queue: deque[int] = deque()
        key = reach - work[:, d]
        for end in range(1, last + 1):
            k = end - 1
            if math.isfinite(key[k]):
                while queue and key[queue[-1]] >= key[k]:
                    queue.pop()
                queue.append(k)
            while queue and (held[end] - held[queue[0]] > limit[d] or bans[end, d] > bans[queue[0], d]):
                queue.popleft()
            if queue:
                value[j, end] = key[queue[0]] + work[end, d]
                origin[j, end] = source[queue[0]], queue[0]
    j = int(value[1:, last].argmin()) + 1
    estimate, place = float(value[j, last]), last
    if not math.isfinite(estimate):
        return None
    found = []
    while place > 0:
        found.append((devices[j - 1], place))
        j, place = (int(x) for x in origin[j, place])
    return estimate, found[::-1]
