"""Simulated annealing on placements: the latency is the energy, memory and the order of pieces are kept throughout.

A trial moves a group of operators of one slot, found breadth first, to the slot of a neighbour or to any other, with
all operators of their classes; it is refused if memory overflows or pieces would wait for each other in a circle.
"""

from __future__ import annotations

import math

import numpy as np

from partita.kernels.arrays import Words
from partita.kernels.compiled import allocating_nothing, inlined
from partita.kernels.latency.arrays import LatencyArrays, Placement
from partita.kernels.latency.quotient import longest, relocate

#: Most operators of a group; classes come on top.
GROUP = 32
#: Trials at one temperature.
COOLING_BLOCK = 256


@inlined
def _draw(random: Words) -> int:
    """The next 31 random bits (xorshift64*)."""
    x = random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    random[0] = x
    return int((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33))


@allocating_nothing
def anneal(a: LatencyArrays, s: Placement, hot: float, cold: float, trials: int, stamp: int, side: float) -> int:
    """Anneal from ``s.slot`` for a number of trials, cooling geometrically from ``hot`` to ``cold`` (times).

    The start must be feasible, and ``s.value[1]`` its latency. ``s.best`` and ``s.value[0]`` are updated. ``stamp`` is
    larger than any number of a trial before; ``side`` weighs the time all pieces take together in the energy. Returns
    the number of accepted trials.
    """
    n, slots = s.slot.shape[0], s.into.shape[0]
    passes, pieces = a.shape[1], a.shape[2]
    each = passes * pieces
    slot, moved, goal, seen = s.slot, s.moved, s.goal, s.seen
    temperature = hot
    cooling = (cold / hot) ** (COOLING_BLOCK / max(1, trials))
    accepted = 0
    busy = 0.0
    for p in range(slots):
        busy += s.into[p] + s.work[p] + s.out[p]
    level = s.value[1] + side * busy
    scale = 1.0 / 2147483648.0
    for trial in range(trials):
        if trial % COOLING_BLOCK == COOLING_BLOCK - 1:
            temperature *= cooling
        mark = stamp + trial
        v = _draw(s.random) % n
        at = slot[v]
        form = _draw(s.random)
        b = -1
        if form % 8 < 6:
            lo, hi = a.graph.pred_ptr[v], a.graph.pred_ptr[v + 1]
            low, high = a.graph.succ_ptr[v], a.graph.succ_ptr[v + 1]
            degree = hi - lo + high - low
            if degree > 0:
                i = _draw(s.random) % degree
                b = slot[a.graph.pred[lo + i]] if i < hi - lo else slot[a.graph.succ[low + i - (hi - lo)]]
                if b == at:
                    b = -1
        if b < 0:
            b = _draw(s.random) % (slots + 1)
        device, j = -1, 0
        if b < slots:
            device, j = b // each, b % pieces
        mine = slots if device < 0 else device * each + a.part[v] * pieces + j
        if mine == at:
            continue
        stays = at < slots and device == at // each
        # The group.
        moved[0] = v
        seen[v] = mark
        count = 1
        ways = (form >> 3) % 8
        if ways < 5:
            size = 1 + (form >> 6) % GROUP
            head = 0
            while head < count and count < size:
                u = moved[head]
                head += 1
                if ways != 1:
                    for i in range(a.graph.pred_ptr[u], a.graph.pred_ptr[u + 1]):
                        w = a.graph.pred[i]
                        if count < size and seen[w] != mark and slot[w] == at:
                            seen[w] = mark
                            moved[count] = w
                            count += 1
                if ways != 2:
                    for i in range(a.graph.succ_ptr[u], a.graph.succ_ptr[u + 1]):
                        w = a.graph.succ[i]
                        if count < size and seen[w] != mark and slot[w] == at:
                            seen[w] = mark
                            moved[count] = w
                            count += 1
        if not stays:
            listed = count
            for i in range(listed):
                group = a.group.of[moved[i]]
                for e in range(a.group.ptr[group], a.group.ptr[group + 1]):
                    w = a.group.members[e]
                    if seen[w] != mark:
                        seen[w] = mark
                        moved[count] = w
                        count += 1
        fits, bytes_ = True, 0.0
        for i in range(count):
            w = moved[i]
            if device < 0:
                goal[i] = slots
            else:
                goal[i] = device * each + a.part[w] * pieces + j
                bytes_ += a.mem[w]
                if a.acc[w] == np.inf:
                    fits = False
        if not fits or (device >= 0 and not stays and s.held[device] + bytes_ > a.limit[0]):
            continue
        chance = _draw(s.random) * scale
        for i in range(count):
            goal[i] = relocate(a, s, moved[i], goal[i])
        latency = longest(a, s)
        busy = 0.0
        for p in range(slots):
            busy += s.into[p] + s.work[p] + s.out[p]
        energy = latency + side * busy
        rise = energy - level
        if latency < np.inf and (rise <= 0.0 or (rise < 30.0 * temperature and chance < math.exp(-rise / temperature))):
            accepted += 1
            level = energy
            s.value[1] = latency
            if latency < s.value[0] * (1.0 - 1e-12):
                s.value[0] = latency
                for i in range(n):
                    s.best[i] = slot[i]
        else:
            for i in range(count - 1, -1, -1):
                relocate(a, s, moved[i], goal[i])
    return accepted
