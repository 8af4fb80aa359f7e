"""From a filled table of a hybrid decision back to a plan."""

from __future__ import annotations

import numpy as np

from partita.kernels.compiled import compiled
from partita.kernels.hybrid.arrays import HybridArrays, HybridScratch
from partita.kernels.hybrid.decide import NONE
from partita.kernels.hybrid.knapsack import cheapest, fill_items
from partita.kernels.hybrid.stages import (
    ROUNDING,
    boundary,
    first_replicas,
    plain_boundary,
    reach,
    subset,
    sync_factor,
)
from partita.kernels.throughput.arrays import Ints, Longs

#: A trace holds for each stage: inner set, outer set, degree number, replicas, replicas from here on.
STEP = 5


@compiled
def trace(
    h: HybridArrays,
    s: HybridScratch,
    target: float,
    fewest: Ints,
    column: int,
    steps: Ints,
    stop: Longs,
) -> int:
    """Follow a filled table back from the whole model with degrees summing to at most ``column``.

    Writes the stages into ``steps`` (stages, STEP), first stage first, and returns their number; -1 if the table does
    not hold a plan.
    """
    sets = fewest.shape[0]
    # Remembered times were summed in another order.
    target *= 1.0 + 10.0 * ROUNDING
    outer, count = sets - 1, 0
    while outer > 0:
        value = fewest[outer, column]
        if value >= NONE:
            return -1
        while column > 0 and fewest[outer, column - 1] == value:
            column -= 1
        found = False
        for inner in range(outer):
            if fewest[inner, column] >= value or not subset(h, inner, outer):
                continue
            for r in range(h.degree.shape[0]):
                t = h.degree[r]
                if h.missing[r, outer] != h.missing[r, inner]:
                    continue
                compute = h.time[r, outer] - h.time[r, inner]
                weight = h.weight[r, outer] - h.weight[r, inner]
                one = compute + boundary(h, inner, outer, r)
                d = first_replicas(h.next_replicas, h.limits[2] != 0.0, target, one, weight)
                while d <= column and d * t <= value:
                    sync = sync_factor(h, d)
                    if fewest[inner, column - d] + d * t == value and one + sync * weight <= d * target:
                        spent = one - compute + sync * weight if h.uniform[r] else plain_boundary(h, inner, outer)
                        need = -(-column // d)
                        if reach(h, s, inner, outer, r, sync, d, need, need, d * target - spent, stop) == need:
                            found = True
                            break
                    d = h.next_replicas[d + 1]
                if found:
                    steps[count, 0], steps[count, 1], steps[count, 2] = inner, outer, r
                    steps[count, 3], steps[count, 4] = d, column
                    break
            if found:
                break
        if not found:
            return -1
        count += 1
        column -= steps[count - 1, 3]
        outer = steps[count - 1, 0]
    return count


@compiled
def choose(
    h: HybridArrays,
    s: HybridScratch,
    inner: int,
    outer: int,
    r: int,
    sync: float,
    replicas: int,
    in_flight: int,
    stop: Longs,
) -> float:
    """Put the fastest choice of options that fits into ``s.best``, by layer; returns its time, or infinity.

    ``sync`` is the factor of the weights in the stage's time; ``replicas`` counts those in all machines.
    """
    count, total, missing = fill_items(h, s, inner, outer, r, replicas, in_flight, sync)
    return total + cheapest(h, s, r, count, missing, np.inf, False, stop)
