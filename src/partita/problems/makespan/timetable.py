"""A makespan problem in whole numbers, as CP-SAT takes it, and the way back.

Times are multiplied by a scale. Where a power of ten makes all of them whole (instance files have a few decimals),
nothing is lost. Otherwise they are rounded down: starts of any schedule, rounded down too, then still make a schedule,
since ⌊s⌋ + ⌊t⌋ <= ⌊s + t⌋. So what is proven of the numbers holds for the problem. Solutions are moved to the left
with the true times, and only then judged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from partita.kernels.makespan.arrays import Floats, Longs
from partita.mip.schedule import ScheduleModel
from partita.problems.makespan.instance import MakespanInstance, labels
from partita.problems.makespan.plan import Schedule
from partita.problems.makespan.schedules import devices_of, left_shifted, starts_of

#: The largest sum of all times, in whole numbers, with decimals and with rounding.
_DECIMALS, _ROUNDED = 2.0**38, 2.0**38
#: How far from whole a number may be that is one, and how much a bound gives up for that.
_WHOLE, MARGIN = 1e-12, 1e-12


@dataclass(frozen=True)
class Timetable:
    """The model, and whole numbers per unit of time.

    Attributes
    ----------
    instance, model
        The problem and its model.
    scale
        Whole numbers per unit of time.
    """

    instance: MakespanInstance
    model: ScheduleModel
    scale: float

    def schedule(self, point: Floats) -> Schedule:
        """The schedule of a point, as early as its order allows."""
        n, flows = self.instance.count, len(self.instance.problem.flows)
        device = [int(d) for d in point[:n]]
        return left_shifted(self.instance, device, point[n : 2 * n].tolist(), point[2 * n : 2 * n + flows].tolist())

    def point(self, plan: Schedule) -> Floats:
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
        return value / self.scale * (1 - MARGIN)


def timetable(instance: MakespanInstance, horizon: float | None = None) -> Timetable:
    """The model of a problem; only schedules with a makespan up to ``horizon`` are wanted, None for all."""
    a = instance.arrays
    able = np.isfinite(a.time)
    times = np.concatenate([a.time[able], a.cost.ravel()])
    # One after the other, everything on its slowest device and over its slowest link.
    most = float(np.where(able, a.time, 0.0).max(axis=1).sum() + a.cost.max(axis=(1, 2), initial=0.0).sum())
    scale, exact = _scale(times, most)

    def whole(values: Floats) -> Longs:
        scaled = values * scale
        result: Longs = (np.round(scaled) if exact else np.floor(scaled)).astype(np.int64)
        return result

    time = np.full(a.time.shape, -1, dtype=np.int64)
    time[able] = whole(a.time[able])
    cost = whole(a.cost)
    lengths = np.where(able, time.astype(np.float64), math.inf)
    head, tail = labels(a._replace(cost=cost.astype(np.float64)), instance.ordered, lengths)
    far = float(2**50)
    last = math.ceil(most * scale * (1 + 1e-9)) + 1
    if horizon is not None:
        last = min(last, math.floor(horizon * scale * (1 + 1e-9) + 1e-6))
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
        horizon=max(last, 0),
    )
    return Timetable(instance, model, scale)


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
    return 2.0 ** math.floor(math.log2(_ROUNDED / most)), False


def _memory(instance: MakespanInstance) -> tuple[Longs, Longs]:
    """What operators hold, rounded down, and what devices have, rounded up; −1 for no limit."""
    a = instance.arrays
    total, finite = float(a.memory.sum()), np.isfinite(a.limit)
    scale = 1.0
    if total > 0 and not ((a.memory == np.floor(a.memory)).all() and total < 2.0**50):
        scale = 2.0 ** math.floor(math.log2(2.0**45 / total))
    limit = np.full(len(a.limit), -1, dtype=np.int64)
    # A limit above all there is never binds.
    limit[finite] = np.floor(np.minimum(a.limit[finite], 2 * total + 1) * scale).astype(np.int64) + (scale != 1.0)
    return np.floor(a.memory * scale).astype(np.int64), limit
