"""Whether a few replicas that exchange bytes can be placed around a device, each of them within a target.

Their exchanges with each other count as placed; for partners outside, a replica uses the fastest links to devices that
are still free, each once. Source: own; the count for partners outside is that of
``partita.problems.mapping.bounds.neighbours``.
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.mapping.arrays import MappingArrays
from partita.engines.kernels.mapping.depth_first import FOUND, GAVE_UP, NONE


@compiled
def _least(a: MappingArrays, near: Ints, device: Ints, taken: Ints, x: int, sizes: Floats, links: Floats) -> float:
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
    if _least(a, near, device, taken, order[0], sizes, links) <= target:
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
                    for i in range(place, -1, -1):
                        if not _least(a, near, device, taken, order[i], sizes, links) <= target:
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
