"""A makespan problem in whole numbers, as CP-SAT takes it, and the way back.

Times are multiplied by a scale. Where a power of ten makes all of them whole (instance files have a few decimals),
nothing is lost. Otherwise they are rounded down: starts of any schedule, rounded down too, then still make a schedule,
since ⌊s⌋ + ⌊t⌋ <= ⌊s + t⌋. So what is proven of the numbers holds for the problem. Solutions are moved to the left
with the true times, and only then judged.

What cannot be part of a schedule that ends by the horizon is left out first: devices by chains, transfers by their own
time. So the scale is that of the schedules that are wanted, however long the rest would take.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs
from partita.engines.mip.schedule import ScheduleModel
from partita.ground.rounding import SUMMED, lowered, up_to
from partita.problems.makespan.instance import MakespanInstance, labels
from partita.problems.makespan.problem import MakespanPlan
from partita.problems.makespan.schedules import devices_of, left_shifted, starts_of

#: The latest end that is looked at, in whole numbers, with decimals and with rounding; what memory sums to; the largest
#: exponent of a scale.
_DECIMALS, _ROUNDED, _HELD, _LARGEST = 2.0**38, 38, 45, 1000
#: How far from whole a number may be that is one, as a share of it; bounds give up more (``lowered``).
_WHOLE = SUMMED / 10


@dataclass(frozen=True)
class Timetable:
    """The model, and whole numbers per unit of time."""

    #: The problem and its model.
    instance: MakespanInstance
    model: ScheduleModel
    scale: float  #: Whole numbers per unit of time.
    exact: bool  #: Whether all times are whole in these; otherwise they are rounded down.

    def schedule(self, point: Floats) -> MakespanPlan:
        """The schedule of a point, as early as its order allows."""
        n, flows = self.instance.count, len(self.instance.problem.flows)
        device = [int(d) for d in point[:n]]
        return left_shifted(self.instance, device, point[n : 2 * n].tolist(), point[2 * n : 2 * n + flows].tolist())

    def point(self, plan: MakespanPlan) -> Floats:
        """A schedule as a point: its starts, rounded down."""
        device = devices_of(self.instance, plan)
        starts, flow_starts = (np.floor(np.array(row) * self.scale + 1e-6) for row in starts_of(self.instance, plan))
        ends = starts + self.model.time[np.arange(self.instance.count), device]
        for u, _, f in self.instance.edges:
            if f >= 0 and self.instance.problem.flows[f].id not in plan.flows:
                flow_starts[f] = ends[u]
        return np.array([*device, *starts, *flow_starts, ends.max()])

    def bound(self, value: float) -> float:
        """What a bound of the model says of the problem."""
        return lowered(value / self.scale)


def timetable(instance: MakespanInstance, horizon: float | None = None) -> Timetable:
    """The model of a problem; only schedules with a makespan up to ``horizon`` are wanted, None for all."""
    a = instance.arrays
    able: Bools = np.isfinite(a.time)
    latest = math.inf if horizon is None else up_to(horizon)
    if horizon is not None:
        able &= instance.head + a.tail <= latest
    short = a.cost <= latest
    # One after the other, everything on its slowest device and over its slowest link.
    slowest = (
        np.where(able, a.time, 0.0).max(axis=1).sum() + np.where(short, a.cost, 0.0).max(axis=(1, 2), initial=0.0).sum()
    )
    most = min(float(slowest), latest)
    scale, exact = _scale(np.concatenate([a.time[able], a.cost[short]]), most)

    def whole(values: Floats) -> Longs:
        scaled = values * scale
        result: Longs = (np.round(scaled) if exact else np.floor(scaled)).astype(np.int64)
        return result

    last = math.ceil(up_to(most * scale)) + 1
    if horizon is not None:
        last = min(last, math.floor(up_to(horizon * scale) + 1e-6))
    last = max(last, 0)
    time = np.full(a.time.shape, -1, dtype=np.int64)
    time[able] = whole(a.time[able])
    # A transfer that takes longer than all there is cannot be.
    cost = np.full(a.cost.shape, last + 1, dtype=np.int64)
    cost[short] = whole(a.cost[short])
    lengths = np.where(able, time.astype(np.float64), math.inf)
    head, tail = labels(a._replace(cost=cost.astype(np.float64)), instance.ordered, lengths)
    far = float(2**50)
    weight, limit = _memory(instance)
    model = ScheduleModel(
        time=time,
        cost=cost,
        edges=tuple(instance.edges),
        groups=tuple(tuple(members) for members in instance.problem.classes() if len(members) > 1),
        weight=weight,
        limit=limit,
        serial=(bool(a.serial[0]), bool(a.serial[1]), bool(a.serial[2])),
        # Queues have fractions, which are rounded down.
        head=np.floor(np.minimum(np.where(able, head - np.where(able, lengths, 0.0), 0.0), far) + 1e-6).astype(
            np.int64
        ),
        tail=np.floor(np.minimum(tail, far) + 1e-6).astype(np.int64),
        horizon=last,
    )
    return Timetable(instance, model, scale, exact)


def _scale(times: Floats, most: float) -> tuple[float, bool]:
    """Whole numbers per unit of time, and whether all times are whole in them."""
    if most <= 0:
        return 1.0, True
    for digits in range(-6, 16):
        scale = 10.0**digits
        if most * scale > _DECIMALS:
            break
        scaled = times * scale
        if (np.abs(scaled - np.round(scaled)) <= _WHOLE * np.maximum(scaled, 1e-300)).all():
            return scale, True
    return _power(_ROUNDED, most), False


def _power(digits: int, most: float) -> float:
    """The power of two by which ``most`` becomes a number of at most so many binary digits."""
    return float(2.0 ** min(_LARGEST, digits - math.ceil(math.log2(most))))


def _memory(instance: MakespanInstance) -> tuple[Longs, Longs]:
    """What operators hold, rounded down, and what devices have at most, rounded up; −1 for no limit."""
    memory, most = instance.arrays.memory, instance.most_held
    total = float(memory.sum())
    # A limit above all there is never binds.
    binds = most < total
    scale = 1.0
    if total > 0 and not ((memory == np.floor(memory)).all() and total < 2.0**50):
        scale = _power(_HELD, total)
    limit = np.full(len(most), -1, dtype=np.int64)
    limit[binds] = np.floor(most[binds] * scale).astype(np.int64) + (scale != 1.0)
    return np.floor(memory * scale).astype(np.int64), limit
