"""Blocks of load at most a target that carry much charge, grown one item at a time: quick, and they prove nothing."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs, Words
from partita.engines.kernels.bits import has
from partita.engines.kernels.compiled import called, compiled
from partita.engines.kernels.rows import pins_of, predecessors, sets_with, successors
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.convex_sets import Exclusions, include
from partita.ground.rounding import NOT_ZERO


@called
def _leaves_no_gap(a: BlockProblem, sets: Words, v: int) -> bool:
    """Whether a convex set with an item more is convex."""
    if has(sets[2], v):
        for u in predecessors(a.graph, v):
            if has(sets[2], u) and not has(sets[0], u):
                return False
    if has(sets[3], v):
        for w in successors(a.graph, v):
            if has(sets[3], w) and not has(sets[0], w):
                return False
    return True


@compiled
def grow_blocks(
    a: BlockProblem, x: Exclusions, charge: Floats, target: float, taste: Floats, seeds: Longs, stop: Longs
) -> tuple[Words, Floats]:
    """From each seed on, add the item with most charge for the load that it adds, times its ``taste``, while one fits.

    The convex blocks (seeds, w) as bit sets, and what they carry; nothing for seeds too heavy by themselves, and for
    those left when the flag ``stop`` is raised.
    """
    n, words, m = a.work.shape[0], x.after.shape[1], a.cost.shape[0]
    blocks, carried = np.zeros((seeds.shape[0], words), np.uint64), np.zeros(seeds.shape[0])
    alone = a.work.copy()
    for v in range(n):
        for e in sets_with(a.net, v):
            alone[v] += a.cost[e]
    more, inside = np.empty(n), np.empty(m, np.int32)
    for i in range(seeds.shape[0]):
        if stop[0] != 0:
            break
        sets = np.zeros((4, words), np.uint64)
        more[:] = alone
        inside[:] = 0
        load, v = 0.0, int(seeds[i])
        if more[v] > target:
            continue
        while v >= 0:
            include(x, sets, v)
            load += more[v]
            carried[i] += charge[v]
            for e in sets_with(a.net, v):
                inside[e] += 1
                size = a.net.ptr[e + 1] - a.net.ptr[e]
                # Whoever comes next no longer starts to pay the net; who comes last ends it.
                less = (a.cost[e] if inside[e] == 1 else 0.0) + (a.cost[e] if inside[e] == size - 1 else 0.0)
                if less > 0.0:
                    for u in pins_of(a.net, e):
                        more[u] -= less
            v, best = -1, 0.0
            for u in range(n):
                if load + more[u] > target or has(sets[0], u) or has(sets[1], u):
                    continue
                worth = taste[u] * charge[u] / max(more[u], NOT_ZERO)
                if worth > best and _leaves_no_gap(a, sets, u):
                    v, best = u, worth
        blocks[i] = sets[0]
    return blocks, carried
