"""What one of several equal parts of a block takes in every pattern, and weights at which the cheapest is dear."""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.makespan.arrays import MakespanArrays


@compiled
def find_takes(
    a: MakespanArrays,
    edges: Longs,
    row: Longs,
    devices: Longs,
    fixed: Longs,
    shares: Floats,
    tail: Floats,
    count: int,
    found: Floats,
) -> None:
    """Fill ``found`` (p, 5·D + 1) with what a part of ``count`` takes.

    Work, sent and received by every device, sent to parts and received from them by others alone, then the chain.

    ``edges`` (e, 3) are sources, targets and flows (−1 for none), by the place of the target in a topological order.
    ``row`` (k,) are the operators of the part, ``devices`` (p, k) theirs, ``fixed`` (n,) those of other operators that
    have one, else −1. ``shares`` (5, D) is added where a device does any of it, ``tail`` (n, D) is what must follow.
    """
    n, size = a.time.shape
    place, start = np.full(n, -1), np.empty(n)
    for k in range(row.shape[0]):
        place[row[k]] = k
    for p in range(devices.shape[0]):
        found[p] = 0.0
        start[:] = 0.0
        for k in range(row.shape[0]):
            d = devices[p, k]
            if found[p, d] == 0.0:
                found[p, d] = shares[0, d]
            found[p, d] += a.time[row[k], d]
        for e in range(edges.shape[0]):
            u, v, f = edges[e]
            c = devices[p, place[u]] if place[u] >= 0 else fixed[u]
            d = devices[p, place[v]] if place[v] >= 0 else fixed[v]
            if c < 0 or d < 0:
                continue
            moved = 0.0 if f < 0 else a.cost[f, c, d]
            start[v] = max(start[v], start[u] + a.time[u, c] + moved)
            if f >= 0 and c != d and (place[u] >= 0 or place[v] >= 0):
                for side in range(1, 5):
                    if (side == 3 and place[u] >= 0) or (side == 4 and place[v] >= 0):
                        continue
                    at = side * size + (c if side % 2 == 1 else d)
                    if found[p, at] == 0.0:
                        found[p, at] = shares[side, c if side % 2 == 1 else d]
                    found[p, at] += moved
        chain = 0.0
        for k in range(row.shape[0]):
            d = devices[p, k]
            chain = max(chain, start[row[k]] + a.time[row[k], d] + tail[row[k], d])
        for side in range(5):
            if not a.serial[side if side < 3 else side - 2]:
                found[p, side * size : (side + 1) * size] = 0.0
        found[p, 5 * size] = chain / count


@compiled
def climb(takes: Floats, cost: Floats, steps: int, smooth: float, weights: Floats) -> None:
    """Change ``weights`` (r,), which add up to 1, so that the least of ``takes`` (p, r) times them and ``cost`` grows.

    All that are near to the least, the nearer the less ``smooth`` is, say where to; longer steps where it is more.
    """
    many, rows = takes.shape
    now, top = weights.copy(), weights.copy()
    each, taken = np.empty(many), np.empty(rows)
    best = -math.inf
    for step in range(steps):
        least = math.inf
        for p in range(many):
            each[p] = cost[p]
            for r in range(rows):
                each[p] += takes[p, r] * now[r]
            least = min(least, each[p])
        if least > best:
            best = least
            top[:] = now
        scale = max(0.02 * smooth * abs(least), 1e-300)
        total = 0.0
        taken[:] = 0.0
        for p in range(many):
            if each[p] - least < 30.0 * scale:
                share = math.exp((least - each[p]) / scale)
                total += share
                for r in range(rows):
                    taken[r] += share * takes[p, r]
        mean = 0.0
        for r in range(rows):
            taken[r] /= total
            mean += taken[r] * now[r]
        mean = max(mean, 1e-300)
        length = smooth / math.sqrt(1.0 + step / 8.0)
        total = 0.0
        for r in range(rows):
            now[r] *= math.exp(min(2.0, max(-2.0, (taken[r] / mean - 1.0) * length)))
            total += now[r]
        for r in range(rows):
            now[r] /= total
    weights[:] = top
