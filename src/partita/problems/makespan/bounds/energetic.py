"""Refuted horizons: what cannot end by a time, by interval relaxation, memory and energetic reasoning."""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import clearly_below, rounded_up, up_to
from partita.problems.makespan.bounds.simple import InstanceBound, simple_bound
from partita.problems.makespan.instance import MakespanInstance, labels

#: Rounds of propagation of one horizon, starts and ends of windows, and (operators · devices · windows) of one look.
_ROUNDS, _WINDOWS, _LOOK = 12, 24, 4e7
#: First step above what is known, and where bisection ends.
_STEP, _PRECISION = 0.01, 1e-3


class Energetic(InstanceBound):
    """The largest of some horizons by which nothing can end; see ``refuted`` for why it holds."""

    name = "energetic"
    summary = "horizons refuted by chains, memory that is taken for sure, and work that must fall into windows of time"
    argument = "within a smaller horizon some window of time would have to hold more work than the devices can do in it"

    def value(self, instance: MakespanInstance, monitor: Monitor) -> float:
        value = simple_bound(instance)
        return destructive_bound(instance, value, monitor) if 0 < value < math.inf else value


def destructive_bound(instance: MakespanInstance, least: float, monitor: Monitor) -> float:
    """A bound of at least ``least``, which is one: horizons above it are refuted in growing steps, then bisected."""
    stop = np.zeros(1, dtype=np.int64)
    low, step = least, _STEP
    high = math.inf
    # Most that is ever asked: everything one after the other.
    while not monitor.stopping and low * _PRECISION < high - low:
        at = low * (1 + step) if math.isinf(high) else (low + high) / 2
        if refuted(instance, at, monitor, stop):
            low, step = at, 2 * step
            if step > 2**20:
                break
        else:
            high = at
    return clearly_below(low) if low > least else least


def refuted(instance: MakespanInstance, horizon: float, monitor: Monitor, stop: Longs) -> bool:
    """Whether no schedule ends by the horizon.

    An operator cannot be on a device where its head and tail (``kernels.makespan.relaxations``) add up to more than the
    horizon; nor can those of its class. Without that device the labels of others grow, and so on. What is left with one
    device takes its memory for sure, so that classes that do not fit beside it are not there. Nothing ends by the
    horizon if an operator has no device left, or some window of time holds more than all devices can do
    (``kernels.makespan.relaxations``).
    """
    from partita.engines.kernels.makespan.relaxations import overfull

    a = instance.arrays
    time = np.where(instance.able, a.time, math.inf)
    while True:
        head, tail = labels(a, instance.ordered, time)
        keep = _with_room(instance, np.isfinite(time) & (head + tail <= up_to(horizon)))
        if not keep.any(axis=1).all():
            return True
        if monitor.stopping:
            return False
        if (keep == np.isfinite(time)).all():
            break
        time = np.where(keep, time, math.inf)
    if not a.serial[0]:
        return False
    count = max(2, min(_WINDOWS, int(math.sqrt(_LOOK / time.size / 4))))

    def spread(values: Floats) -> Floats:
        """Some of many values, evenly by rank, the least and the largest among them."""
        distinct = np.unique(values)
        found: Floats = distinct[np.unique(np.linspace(0, len(distinct) - 1, count).round().astype(np.int64))]
        return found

    opens, closes = spread(head[keep] - time[keep]), spread(horizon - tail[keep])
    return bool(overfull(a, time, head, tail, horizon, opens, closes, stop))


def _with_room(instance: MakespanInstance, keep: Bools) -> Bools:
    """Devices that all of a class still have, and on which it fits beside all that can be nowhere else."""
    sizes, able = instance.sizes[:, None], instance.by_class(keep)
    most = rounded_up(instance.most_held, instance.most_held, instance.count)
    for _ in range(_ROUNDS):
        forced = able & (able.sum(axis=1) == 1)[:, None]
        fits = able & (np.where(forced, 0.0, sizes) + (forced * sizes).sum(axis=0) <= most)
        if (fits == able).all():
            break
        able = fits
    found: Bools = able[instance.arrays.group.of]
    return found
