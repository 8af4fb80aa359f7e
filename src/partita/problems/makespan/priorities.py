"""Mean times, and priorities of list scheduling that are made of them."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.problems.makespan.instance import MakespanInstance


def mean_times(instance: MakespanInstance) -> Floats:
    """The mean time of every operator over the devices on which it can run."""
    time = instance.arrays.time
    able = np.isfinite(time)
    found: Floats = np.where(able, time, 0.0).sum(axis=1) / able.sum(axis=1)
    return found


def upward_ranks(instance: MakespanInstance) -> list[float]:
    """HEFT's priority: mean time of an operator and the longest chain after it, transfers by their mean.

    Source: Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
    computing" (2002), §4.1; the mean of a transfer is over pairs of different devices.
    """
    means, moved = mean_times(instance).tolist(), mean_transfers(instance)
    rank = [0.0] * instance.count
    for v in reversed(instance.order):
        after = (rank[w] + (moved[f] if f >= 0 else 0.0) for w, f in instance.after[v])
        rank[v] = means[v] + max(after, default=0.0)
    return rank


def mean_transfers(instance: MakespanInstance) -> list[float]:
    """The mean time of every flow over pairs of different devices."""
    devices = instance.devices
    pairs = devices * (devices - 1)
    cost: Floats = instance.arrays.cost
    return (cost.sum(axis=(1, 2)) / pairs).tolist() if pairs else [0.0] * len(cost)
