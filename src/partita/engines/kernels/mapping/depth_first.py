"""Depth-first assignment of devices to replicas under a target: a mapping within it, or a proof that there is none."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.mapping.arrays import MappingArrays
from partita.engines.kernels.rows import row_of

#: What came of a search: a mapping, the proof that there is none, or neither.
FOUND, NONE, GAVE_UP = 1, 0, -1


@compiled
def _within(a: MappingArrays, device: Ints, x: int, floor: Floats, target: float) -> bool:
    """Whether a replica takes at most the target, as far as its partners are placed; ``floor`` for the others."""
    count = a.replicas
    s, r = x // count, x % count
    d = device[x]
    total = a.time[s, d]
    for k in range(a.ptr[s], a.ptr[s + 1]):
        e = device[a.other[k] * count + r]
        total += a.weight[k] * (a.inverse[d, e] if e >= 0 else floor[d])
    if a.ring[s] > 0.0:
        slowest = floor[d]
        for y in (a.after[x], a.before[x]):
            e = device[y]
            if e >= 0:
                slowest = max(slowest, a.inverse[d, e])
        total += a.ring[s] * slowest
    return bool(total <= target)


@compiled
def _fits(a: MappingArrays, device: Ints, x: int, floor: Floats, target: float) -> bool:
    """Whether a replica and its partners that are placed are within the target."""
    if not _within(a, device, x, floor, target):
        return False
    count = a.replicas
    s, r = x // count, x % count
    for u in row_of(a.ptr, a.other, s):
        y = u * count + r
        if device[y] >= 0 and not _within(a, device, y, floor, target):
            return False
    if a.ring[s] > 0.0:
        for y in (a.after[x], a.before[x]):
            if device[y] >= 0 and not _within(a, device, y, floor, target):
                return False
    return True


@compiled
def depth_first(
    a: MappingArrays,
    order: Ints,
    above: Ints,
    twin: Ints,
    allowed: Ints,
    floor: Floats,
    target: float,
    checks: int,
    stop: Longs,
    device: Ints,
) -> int:
    """Place replicas one after the other, devices by number; take back what is beyond the target: ``FOUND``, …

    Parameters
    ----------
    a, order
        The problem, and (n,) its replicas in the order in which they are placed.
    above, twin
        For symmetry, −1 for none: (n,) for every replica one whose device must have a smaller number, and (D,) for
        every device one that is to be taken before it.
    allowed, floor
        (S, D) 1 where a replica of the stage may be, and (D,) seconds per byte to partners that are not yet placed, at
        least; 0 to leave them out.
    target, checks
        Most that any replica may take, and devices that are tried at most.
    stop, device
        (1,) Polled, and (n,) the mapping found.
    """
    n, devices = order.shape[0], a.inverse.shape[0]
    device[:] = -1
    taken = np.zeros(devices, dtype=np.bool_)
    tried = np.full(n, -1, dtype=np.int32)
    place, made = 0, 0
    while place >= 0:
        if place == n:
            return FOUND
        x = order[place]
        s = x // a.replicas
        if device[x] >= 0:
            taken[device[x]] = False
            device[x] = -1
        d = tried[place] + 1
        if above[x] >= 0:
            # Earlier in the order, so it has a device.
            d = max(d, device[above[x]] + 1)
        while d < devices:
            if not taken[d] and allowed[s, d] != 0 and (twin[d] < 0 or taken[twin[d]]):
                made += 1
                device[x] = d
                if _fits(a, device, x, floor, target):
                    break
                device[x] = -1
            d += 1
        if made > checks or stop[0] != 0:
            return GAVE_UP
        tried[place] = d
        if d < devices:
            taken[d] = True
            place += 1
            if place < n:
                tried[place] = -1
        else:
            place -= 1
    return NONE
