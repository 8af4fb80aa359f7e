"""Simulated annealing on acyclic splits: the label of an item is its stage, labels never fall along edges.

Moves take an item to another label between those of its predecessors and successors; only two stages change. Energy
Σ (load / target)^power. Source of the energy and the move: experiments for maximum-throughput pipeline partitioning
(pipelined inference, ICML 2024, §4, compares searches over orders).
"""

from __future__ import annotations

import numpy as np

from partita.kernels.arrays import Floats, Ints, Longs
from partita.kernels.compiled import compiled
from partita.kernels.throughput.anneal_partition import Cooling, pins_in, window
from partita.kernels.throughput.arrays import Arrays
from partita.kernels.throughput.stage_loads import segment_loads


@compiled
def _move(a: Arrays, count: Ints, loads: Floats, kind: Ints, v: int, old: int, new: int) -> None:
    """Move v from stage ``old`` to ``new``: pins per (net, stage) and both loads."""
    loads[old] -= a.work[kind[old], v]
    loads[new] += a.work[kind[new], v]
    stages = loads.shape[0]
    for p in range(a.net.item_ptr[v], a.net.item_ptr[v + 1]):
        e = a.net.of_item[p]
        size = a.net.ptr[e + 1] - a.net.ptr[e]
        here, there = count[e * stages + old], count[e * stages + new]
        if here < size:
            loads[old] -= a.net_cost[kind[old], e]
        if there > 0:
            loads[new] -= a.net_cost[kind[new], e]
        here -= 1
        there += 1
        if here > 0:
            loads[old] += a.net_cost[kind[old], e]
        if there < size:
            loads[new] += a.net_cost[kind[new], e]
        count[e * stages + old] = here
        count[e * stages + new] = there


@compiled
def anneal(a: Arrays, label: Ints, kind: Ints, target: float, cooling: Cooling, stop: Longs) -> float:
    """Anneal ``label`` in place; at the end it is the best split met. Returns its largest load.

    ``kind`` gives each stage's device kind; memory must not be able to bind (``fixed`` bytes are checked only).
    """
    np.random.seed(cooling.seed)
    power, trials = cooling.power, cooling.trials
    n, stages = label.shape[0], kind.shape[0]
    count, loads, held = pins_in(a, label, stages), np.empty(stages), np.zeros(stages)
    segment_loads(a, a.work, a.net_cost, label, kind, loads)
    for v in range(n):
        held[label[v]] += a.fixed[v] + a.in_flight[1] * a.active[v]
    best, best_label = loads.max(), label.copy()
    temperature = cooling.start
    cool = (cooling.end / cooling.start) ** (1.0 / max(1, trials // 1024))
    for trial in range(trials):
        if (trial & 1023) == 0:
            temperature *= cool
            if stop[0] != 0:
                break
        v = np.random.randint(0, n)
        old = label[v]
        low, high = window(a, label, v, stages)
        if low >= high:
            continue
        new = np.random.randint(low, high)
        if new >= old:
            new += 1
        bytes_moved = a.fixed[v] + a.in_flight[1] * a.active[v]
        if a.work[kind[new], v] == np.inf or held[new] + bytes_moved > a.memory[kind[new]]:
            continue
        before_old, before_new = loads[old], loads[new]
        _move(a, count, loads, kind, v, old, new)
        change = (loads[old] / target) ** power + (loads[new] / target) ** power
        change -= (before_old / target) ** power + (before_new / target) ** power
        if change > 0 and np.random.random() >= np.exp(-change / temperature):
            _move(a, count, loads, kind, v, new, old)
            loads[old], loads[new] = before_old, before_new
            continue
        label[v] = new
        held[old] -= bytes_moved
        held[new] += bytes_moved
        if loads[new] < best and loads[old] < best:
            now = loads.max()
            if now < best * (1 - 1e-12):
                best = now
                best_label[:] = label
    label[:] = best_label
    return float(best)
