"""The least weighted work, traffic and memory over all placements, as far as a forest of flows sees them."""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints, Longs
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.makespan.arrays import MakespanArrays


@compiled
def cheapest_placement(
    a: MakespanArrays,
    able: Bools,
    order: Longs,
    parent: Ints,
    flow: Ints,
    on_path: Bools,
    chain: float,
    weights: Floats,
    price: Floats,
    used: Floats,
    held: Floats,
) -> float:
    """The least over the devices of all operators of the weighted sum, and what the placement found takes.

    ``able`` (n, D) says where operators may be, ``order`` is topological; ``parent`` and ``flow`` (n,) are of every
    operator one that it waits for and the flow between them, −1 for none. ``on_path`` (n,) is whether it is on the
    chain that has a weight, ``chain``; its parent is then the one before it there. ``weights`` (3, D) are of the work
    of devices, of what leaves them and of what enters them, ``price`` (D,) of memory. ``used`` (3·D + 1,), work,
    traffic and last the length of the chain, and ``held`` (D,) get what the placement takes.
    """
    n, devices = able.shape
    cost = np.empty((n, devices))
    pick = np.zeros((n, devices), dtype=np.int32)
    for v in range(n):
        for d in range(devices):
            if able[v, d]:
                weight = weights[0, d] + (chain if on_path[v] else 0.0)
                cost[v, d] = weight * a.time[v, d] + price[d] * a.memory[v]
            else:
                cost[v, d] = math.inf
    total = 0.0
    for place in range(n - 1, -1, -1):
        v = order[place]
        u, f = parent[v], flow[v]
        if u < 0:
            total += cost[v].min()
            continue
        for c in range(devices):
            if not able[u, c]:
                continue
            least, chosen = math.inf, 0
            for d in range(devices):
                value = cost[v, d]
                if f >= 0 and c != d:
                    weight = weights[1, c] + weights[2, d] + (chain if on_path[v] else 0.0)
                    value += weight * a.cost[f, c, d]
                if value < least:
                    least, chosen = value, d
            pick[v, c] = chosen
            cost[u, c] += least
    used[:] = 0.0
    held[:] = 0.0
    device = np.empty(n, dtype=np.int32)
    for place in range(n):
        v = order[place]
        u, f = parent[v], flow[v]
        d = int(pick[v, device[u]]) if u >= 0 else int(np.argmin(cost[v]))
        device[v] = d
        used[d] += a.time[v, d]
        held[d] += a.memory[v]
        if on_path[v]:
            used[3 * devices] += a.time[v, d]
        if u >= 0 and f >= 0 and device[u] != d:
            moved = a.cost[f, device[u], d]
            used[devices + device[u]] += moved
            used[2 * devices + d] += moved
            if on_path[v]:
                used[3 * devices] += moved
    return total
