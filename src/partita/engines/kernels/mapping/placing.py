"""Replicas on devices under a target: depth-first, around one device, or as far as stages find devices at all.

*A pattern* is a few replicas that exchange bytes, placed around a device. Their exchanges with each other count as
placed; for partners outside, a replica uses the fastest links to devices that are still free, each once. Source: own;
the count for partners outside is that of ``partita.problems.mapping.bounds.neighbours``.
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.mapping.arrays import MappingArrays, partners


@compiled
def covers(allowed: Ints, capacity: Ints, every_device: bool) -> bool:
    """Whether each stage gets as many devices of its own as ``capacity`` (S,) says: an augmenting path for each.

    ``allowed`` (S, D) is 1 where a replica of the stage may be; with ``every_device`` there are exactly as many devices
    as replicas.
    """
    stages, devices = allowed.shape
    holder = np.full(devices, -1, dtype=np.int32)
    if every_device:
        for d in range(devices):
            lonely = True
            for s in range(stages):
                if allowed[s, d] != 0:
                    lonely = False
                    break
            if lonely:
                return False
    seen = np.full(devices, -1, dtype=np.int32)
    queue = np.empty(devices, dtype=np.int32)
    parent = np.empty(devices, dtype=np.int32)
    expanded = np.full(stages, -1, dtype=np.int32)
    stamp = 0
    for s in range(stages):
        for _ in range(capacity[s]):
            head, tail = 0, 0
            end = -1
            expanded[s] = stamp
            for d in range(devices):
                if allowed[s, d] != 0:
                    seen[d] = stamp
                    parent[d] = -1
                    queue[tail] = d
                    tail += 1
            while head < tail:
                d = queue[head]
                head += 1
                if holder[d] < 0:
                    end = d
                    break
                t = holder[d]
                if expanded[t] == stamp:
                    continue
                expanded[t] = stamp
                for e in range(devices):
                    if allowed[t, e] != 0 and seen[e] != stamp:
                        seen[e] = stamp
                        parent[e] = d
                        queue[tail] = e
                        tail += 1
            if end < 0:
                return False
            # Along the path, everyone moves one on: the stage of the device before takes this one.
            while parent[end] >= 0:
                holder[end] = holder[parent[end]]
                end = parent[end]
            holder[end] = s
            stamp += 1
    return True


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
    for y in partners(a, x):  # noqa: SIM110 - a plain loop compiles
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


@compiled
def least_load(a: MappingArrays, near: Ints, device: Ints, taken: Ints, x: int, sizes: Floats, links: Floats) -> float:
    """What a placed replica takes at least; transfers of every stage are sorted, the largest first."""
    count = a.replicas
    s, r = x // count, x % count
    d = device[x]
    total = a.time[s, d]
    open_ends = 0
    for k in range(a.ptr[s], a.ptr[s + 1]):
        e = device[a.other[k] * count + r]
        if e >= 0:
            total += a.weight[k] * a.inverse[d, e]
        else:
            sizes[open_ends] = a.weight[k]
            open_ends += 1
    missing, slowest = 0, 0.0
    if a.ring[s] > 0.0:
        for y in (a.after[x], a.before[x]):
            e = device[y]
            if e >= 0:
                slowest = max(slowest, a.inverse[d, e])
            else:
                missing += 1
            if a.after[x] == a.before[x]:
                break
    wanted = open_ends + missing
    found = 0
    for place in range(near.shape[1]):
        if found == wanted:
            break
        e = near[d, place]
        if taken[e] == 0:
            links[found] = a.inverse[d, e]
            found += 1
    if found < wanted:
        return np.inf
    if missing == 0:
        for i in range(open_ends):
            total += sizes[i] * links[i]
        return float(total + a.ring[s] * slowest)
    best = np.inf
    for last in range(missing - 1, wanted):
        value = a.ring[s] * max(slowest, links[last])
        i = 0
        for place in range(wanted):
            if place <= last - missing or place > last:
                value += sizes[i] * links[place]
                i += 1
        best = min(best, value)
    return float(total + best)


@compiled
def place_pattern(
    a: MappingArrays,
    near: Ints,
    order: Ints,
    beside: Ints,
    moved: Floats,
    allowed: Ints,
    root: int,
    target: float,
    checks: int,
    recent: int,
    stop: Longs,
    device: Ints,
    taken: Ints,
) -> int:
    """Place the first replica on a device, the others on devices near those before them, all within a target.

    Parameters
    ----------
    a, near
        The problem, transfers of every stage sorted by size, and the other devices of every device, nearest first.
    order, beside, moved
        (n,) Replicas in the order in which they are placed; an earlier one, as a place in the order, that each
        exchanges bytes with; and how many bytes that is.
    root
        The device of the first one.
    allowed, target, checks, stop
        As in ``depth_first``, and so is the answer.
    recent
        So many of those placed last are looked at again with every new one. With fewer than all, some places found may
        be none; that there is none is true all the same.
    device, taken
        (S·R,) all −1, and (D,) all 0; ``device`` gets the places if found, and both are as before otherwise.
    """
    n = order.shape[0]
    most = near.shape[1]
    sizes, links = np.empty(a.inverse.shape[0] + 4), np.empty(a.inverse.shape[0] + 4)
    tried = np.full(n, -1, dtype=np.int32)
    device[order[0]] = root
    taken[root] = 1
    answer = NONE
    if least_load(a, near, device, taken, order[0], sizes, links) <= target:
        place, made = 1, 0
        while place > 0:
            if place == n:
                answer = FOUND
                break
            x = order[place]
            s = x // a.replicas
            old = device[x]
            if old >= 0:
                taken[old] = 0
                device[x] = -1
            home = device[order[beside[place]]]
            floor = a.time[order[beside[place]] // a.replicas, home]
            k = tried[place] + 1
            fits = False
            while k < most:
                e = near[home, k]
                if floor + moved[place] * a.inverse[home, e] > target:
                    k = most
                    break
                if taken[e] == 0 and allowed[s, e] != 0:
                    made += 1
                    device[x], taken[e] = e, 1
                    fits = True
                    # The last ones are the likeliest to fail.
                    for i in range(place, max(-1, place - recent), -1):
                        if not least_load(a, near, device, taken, order[i], sizes, links) <= target:
                            fits = False
                            break
                    if fits:
                        break
                    device[x], taken[e] = -1, 0
                k += 1
            if made > checks or stop[0] != 0:
                answer = GAVE_UP
                break
            tried[place] = k
            if fits:
                place += 1
                if place < n:
                    tried[place] = -1
            else:
                place -= 1
    for i in range(n):
        if device[order[i]] >= 0:
            taken[device[order[i]]] = 0
            if answer != FOUND:
                device[order[i]] = -1
    return answer
