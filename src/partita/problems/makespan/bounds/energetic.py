"""Refuted horizons: what cannot end by a time, by interval relaxation, memory and energetic reasoning."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

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
#: Tails of operators of one device that are looked at.
_TAILS = 24

#: Whether nothing ends by a horizon, as ``refuted`` says it.
Refutes = Callable[[MakespanInstance, float, Monitor, Longs], bool]


class Energetic(InstanceBound):
    """The largest of some horizons by which nothing can end; see ``refuted`` for why it holds."""

    name = "energetic"
    summary = "horizons refuted by chains, memory that is taken for sure, and work that must fall into windows of time"
    argument = "within a smaller horizon some window of time would have to hold more work than the devices can do in it"

    def value(self, instance: MakespanInstance, monitor: Monitor) -> float:
        return destructive_bound(instance, simple_bound(instance), monitor)


def destructive_bound(
    instance: MakespanInstance, least: float, monitor: Monitor, refutes: Refutes | None = None
) -> float:
    """A bound of at least ``least``, which is one: horizons above it are refuted in growing steps, then bisected.

    ``refutes`` stands for ``refuted``. A ``least`` of 0, or an infinite one, is all that is known.
    """
    if not 0 < least < math.inf:
        return least
    refutes = refutes or refuted
    stop = np.zeros(1, dtype=np.int64)
    low, step = least, _STEP
    high = math.inf
    # Most that is ever asked: everything one after the other.
    while not monitor.stopping and low * _PRECISION < high - low:
        at = low * (1 + step) if math.isinf(high) else (low + high) / 2
        if refutes(instance, at, monitor, stop):
            low, step = at, 2 * step
            if step > 2**20:
                break
        else:
            high = at
    return clearly_below(low) if low > least else least


def refuted(instance: MakespanInstance, horizon: float, monitor: Monitor, stop: Longs) -> bool:
    """Whether no schedule ends by the horizon; see ``narrowed``."""
    return narrowed(instance, horizon, instance.able, monitor, stop) is None


@dataclass(frozen=True)
class Narrowed:
    """Where operators can be in a schedule that ends by a horizon, as far as that is known."""

    able: Bools  #: (n, D) Whether on a device.
    #: (n, D) What passes at least until its end there, and after it; infinite where it cannot be.
    head: Floats
    tail: Floats


def narrowed(instance: MakespanInstance, horizon: float, able: Bools, monitor: Monitor, stop: Longs) -> Narrowed | None:
    """What is left of ``able`` (n, D), the devices that operators may be on, by a horizon; None if nothing ends by it.

    An operator cannot be on a device where its head and tail (``kernels.makespan.relaxations``) add up to more than the
    horizon; nor can those of its class. Without that device the labels of others grow, and so on. What is left with one
    device takes its memory for sure, so that classes that do not fit beside it are not there. Nothing ends by the
    horizon if an operator has no device left, if those that have only one take too long there one by one, or if some
    window of time holds more than all devices can do (``kernels.makespan.relaxations``).
    """
    from partita.engines.kernels.makespan.relaxations import overfull

    a = instance.arrays
    time = np.where(able, a.time, math.inf)
    while True:
        head, tail = labels(a, instance.ordered, time)
        keep = _with_room(instance, np.isfinite(time) & (head + tail <= up_to(horizon)))
        if not keep.any(axis=1).all():
            return None
        left = Narrowed(keep, head, tail)
        if monitor.stopping:
            return left
        if (keep == np.isfinite(time)).all():
            break
        time = np.where(keep, time, math.inf)
    if not a.serial[0]:
        return left
    alone = keep & (keep.sum(axis=1) == 1)[:, None]
    for d in np.flatnonzero(alone.any(axis=0)).tolist():
        mine = alone[:, d]
        if _one_by_one(head[mine, d] - time[mine, d], time[mine, d], tail[mine, d]) > up_to(horizon):
            return None
    count = max(2, min(_WINDOWS, int(math.sqrt(_LOOK / time.size / 4))))

    def spread(values: Floats) -> Floats:
        """Some of many values, evenly by rank, the least and the largest among them."""
        distinct = np.unique(values)
        found: Floats = distinct[np.unique(np.linspace(0, len(distinct) - 1, count).round().astype(np.int64))]
        return found

    opens, closes = spread(head[keep] - time[keep]), spread(horizon - tail[keep])
    return None if overfull(a, time, head, tail, horizon, opens, closes, stop) else left


def _one_by_one(release: Floats, takes: Floats, tail: Floats) -> float:
    """What operators of one device take at least with what is before and after them.

    Those with long tails, one by one from the release of any of them on, and the least of these tails: over all such
    choices that is how long the best schedule with interruptions takes (Carlier, "The one-machine sequencing problem",
    1982, §2). Some tails are enough for a bound.
    """
    order = np.argsort(release, kind="stable")
    release, takes, tail = release[order], takes[order], tail[order]
    found = 0.0
    for least in np.unique(np.quantile(tail, np.linspace(0.0, 1.0, _TAILS), method="lower")).tolist():
        long = tail >= least
        found = max(found, float((release[long] + takes[long][::-1].cumsum()[::-1]).max()) + least)
    return found


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
