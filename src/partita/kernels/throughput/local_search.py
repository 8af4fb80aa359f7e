"""Steepest descent on the largest load: the best move of one item to another device, again and again."""

from __future__ import annotations

import numpy as np

from partita.kernels.compiled import compiled
from partita.kernels.throughput.arrays import Floats, Ints, Longs


@compiled
def descend(
    work: Floats,
    net_ptr: Ints,
    net_pins: Ints,
    item_net_ptr: Ints,
    item_nets: Ints,
    net_cost: Floats,
    label: Ints,
    pins: Ints,
    loads: Floats,
    epsilon: float,
    moves: int,
    stop: Longs,
) -> bool:
    """Make up to ``moves`` best moves; whether a local optimum was reached.

    ``work`` (n, D) and ``net_cost`` (m, D) are per device. ``label`` is changed in place; ``pins`` (m, D) and ``loads``
    (D,) are scratch that is filled here. A move changes two loads only, because a net that other devices cut stays cut
    for them. Moves that lower the largest load by less than ``epsilon`` (relative) are not made.
    """
    n, devices = work.shape
    m = net_cost.shape[0]
    pins[:, :] = 0
    loads[:] = 0.0
    for v in range(n):
        loads[label[v]] += work[v, label[v]]
    for e in range(m):
        for p in range(net_ptr[e], net_ptr[e + 1]):
            pins[e, label[net_pins[p]]] += 1
        for d in range(devices):
            if 0 < pins[e, d] < net_ptr[e + 1] - net_ptr[e]:
                loads[d] += net_cost[e, d]
    gain = np.zeros(devices)
    for _ in range(moves):
        if stop[0] != 0:
            return False
        top = loads.max()
        best, best_item, best_device = top * (1 - epsilon), -1, -1
        for v in range(n):
            here = label[v]
            # The largest load without device ``here`` and any other one is at least this.
            leave = loads[here] - work[v, here]
            for d in range(devices):
                gain[d] = work[v, d]
            for p in range(item_net_ptr[v], item_net_ptr[v + 1]):
                e = item_nets[p]
                size = net_ptr[e + 1] - net_ptr[e]
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
        v, here, there = best_item, label[best_item], best_device
        loads[here] -= work[v, here]
        loads[there] += work[v, there]
        for p in range(item_net_ptr[v], item_net_ptr[v + 1]):
            e = item_nets[p]
            size = net_ptr[e + 1] - net_ptr[e]
            if pins[e, here] < size:
                loads[here] -= net_cost[e, here]
            if pins[e, there] > 0:
                loads[there] -= net_cost[e, there]
            pins[e, here] -= 1
            pins[e, there] += 1
            if pins[e, here] > 0:
                loads[here] += net_cost[e, here]
            if pins[e, there] < size:
                loads[there] += net_cost[e, there]
        label[v] = there
    return False
