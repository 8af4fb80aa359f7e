"""A mapping problem as arrays, and plans from arrays."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from partita.kernels.mapping.arrays import Floats, Ints, MappingArrays
from partita.problems.mapping.evaluate import check_devices, evaluate
from partita.problems.mapping.plan import Placement
from partita.problems.mapping.problem import MappingProblem
from partita.run.incumbent import Incumbent


class Instance:
    """What searches and bounds work on.

    Attributes
    ----------
    problem
        The problem.
    arrays
        For kernels; the form of the objective is in the numbers.
    stages, replicas, devices, count
        How many there are; ``count`` is that of replicas of all stages.

    Raises
    ------
    InputError
        If the problem's devices are not said.
    """

    def __init__(self, problem: MappingProblem) -> None:
        check_devices(problem)
        self.problem = problem
        self.stages, self.replicas = len(problem.stages), problem.replicas
        self.devices, self.count = len(problem.bandwidth_bytes_per_s), problem.used
        # None becomes no number; only the diagonal may be that.
        bandwidth = np.array(problem.bandwidth_bytes_per_s, dtype=np.float64)
        np.fill_diagonal(bandwidth, np.inf)
        moved = np.zeros((self.stages, self.stages))
        if problem.form != "all-reduce":
            for one in problem.transfers:
                moved[one.source, one.target] += one.bytes
                moved[one.target, one.source] += one.bytes
        rows = [np.flatnonzero(row) for row in moved]
        share = 2.0 * (self.replicas - 1) / self.replicas if problem.form != "point-to-point" else 0.0
        self.arrays = MappingArrays(
            replicas=self.replicas,
            time=np.array(
                [
                    stage.times_s if stage.times_s is not None else [stage.time_s] * self.devices
                    for stage in problem.stages
                ],
                dtype=np.float64,
            ).reshape(self.stages, self.devices),
            inverse=1.0 / bandwidth,
            ptr=np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int32),
            other=np.concatenate(rows).astype(np.int32),
            weight=np.concatenate([moved[s, row] for s, row in enumerate(rows)]).astype(np.float64),
            ring=np.array([share * stage.parameter_bytes for stage in problem.stages], dtype=np.float64),
        )

    @property
    def enough(self) -> bool:
        """Whether there are devices for all."""
        return self.devices >= self.count

    def exchanges(self, s: int) -> list[tuple[int, float]]:
        """The stages that one exchanges bytes with, and how many."""
        a = self.arrays
        span = slice(int(a.ptr[s]), int(a.ptr[s + 1]))
        return list(zip(a.other[span].tolist(), a.weight[span].tolist(), strict=True))

    @cached_property
    def near(self) -> Ints:
        """(D, D − 1) The other devices by the speed of the link from each device, the fastest first."""
        order = np.argsort(self.arrays.inverse + np.diag(np.full(self.devices, -1.0)), axis=1, kind="stable")
        found: Ints = np.ascontiguousarray(order[:, 1:].astype(np.int32))
        return found

    @cached_property
    def fastest(self) -> Floats:
        """(D, D − 1) Seconds per byte of the links from each device, ascending."""
        found: Floats = np.take_along_axis(self.arrays.inverse, self.near.astype(np.int64), axis=1)
        return found

    def plan(self, device: Ints) -> Placement:
        """The plan of an array of devices."""
        rows = device.reshape(self.stages, self.replicas).tolist()
        return Placement(placement=tuple(tuple(row) for row in rows))

    def offer(self, best: Incumbent[Placement], device: Ints, by: str) -> float:
        """Evaluate an array of devices and offer it; what it is worth."""
        plan = self.plan(device)
        value = evaluate(self.problem, plan).objective
        best.offer(value, plan, by)
        return value


def device_array(plan: Placement) -> Ints:
    """The array of a plan."""
    return np.array([device for row in plan.placement for device in row], dtype=np.int32)
