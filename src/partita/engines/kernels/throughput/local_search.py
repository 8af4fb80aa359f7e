"""Steepest descent on the largest load: the best move of one item to another device, again and again."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.throughput.free_splits import FreeArrays, FreeState, relocate, reset


@compiled
def descend(a: FreeArrays, s: FreeState, epsilon: float, moves: int) -> bool:
    """Make up to ``moves`` best moves from ``label``; whether a local optimum was reached.

    Every device is of a kind of its own, and memory is not looked at. A move changes two loads only, because a net that
    other devices cut stays cut for them. Moves that lower the largest load by less than ``epsilon`` (relative) are not
    made.
    """
    n, devices = a.work.shape
    work, net_cost, label, loads, pins = a.work, a.net_cost, s.label, s.load, s.pins
    reset(a, s)
    gain = np.zeros(devices)
    for _ in range(moves):
        top = loads.max()
        best, best_item, best_device = top * (1 - epsilon), -1, -1
        for v in range(n):
            here = label[v]
            # The largest load without device ``here`` and any other one is at least this.
            leave = loads[here] - work[v, here]
            for d in range(devices):
                gain[d] = work[v, d]
            for p in range(a.net.item_ptr[v], a.net.item_ptr[v + 1]):
                e = a.net.of_item[p]
                size = a.net.ptr[e + 1] - a.net.ptr[e]
                if pins[e, here] < size:
                    leave -= net_cost[e, here]
                if pins[e, here] > 1:
                    leave += net_cost[e, here]
                for d in range(devices):
                    if d != here:
                        if pins[e, d] > 0:
                            gain[d] -= net_cost[e, d]
                        if pins[e, d] + 1 < size:
                            gain[d] += net_cost[e, d]
            if leave >= best:
                continue
            for d in range(devices):
                if d == here or loads[d] + gain[d] >= best:
                    continue
                value = max(leave, loads[d] + gain[d])
                for other in range(devices):
                    if other != here and other != d and loads[other] > value:
                        value = loads[other]
                if value < best:
                    best, best_item, best_device = value, v, d
        if best_item < 0:
            return True
        relocate(a, s, best_item, best_device, False)
    return False
