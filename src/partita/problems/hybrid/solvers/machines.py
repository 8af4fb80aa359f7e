"""Is there a plan within a target, on machines of several devices? Asked of a family of suffix sets."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from partita.errors import DisagreementError
from partita.kernels.hybrid import arrays as kernels
from partita.kernels.hybrid.machines import MachineArrays, MachineTables, decide_machines, fill_group
from partita.pipeline import Plan, Stage
from partita.problems.hybrid.downsets import as_bits
from partita.problems.hybrid.instance import HybridInstance, sums_over
from partita.problems.hybrid.room import Room, most_room
from partita.problems.hybrid.solvers.decision import Family


class MachineFamily(Family):
    """As ``Family``, for problems with a hierarchy; ``fewest`` counts machines."""

    def __init__(
        self, model: HybridInstance, sets: Iterable[int], stop: npt.NDArray[np.int64], room: Room = most_room
    ) -> None:
        super().__init__(model, sets, stop, room)
        self.machines = _machine_arrays(model, self.sets)
        devices = model.problem.devices_per_machine
        shape = (len(self.sets), devices + 1, devices + 1)
        self.tables = MachineTables(
            fewest=self.fewest,
            group=np.full(self.fewest.shape, -1, dtype=np.int64),
            room=np.empty(shape, dtype=np.int32),
            stage=np.empty(shape, dtype=np.int64),
        )

    def _fill(self, target: float) -> int:
        return decide_machines(self.work, self.machines, self.tables, target)

    def _rebuild(self, target: float) -> tuple[float, Plan] | None:
        problem = self.model.problem
        size, total = problem.devices_per_machine, problem.machines
        outer, column = len(self.sets) - 1, self.model.width
        stages: list[Stage] = []
        number = 0
        while outer > 0:
            while column > 0 and self.fewest[outer, column - 1] == self.fewest[outer, column]:
                column -= 1
            code, replicas = divmod(int(self.tables.group[outer, column]), size + 1)
            inner, machines = divmod(code, total + 1)
            if not 0 <= inner < outer:
                raise DisagreementError("the table of a decision about machines cannot be followed back to a plan")
            column -= machines * replicas
            group = self._group(inner, outer, machines, replicas, column, target, number)
            if group is None:
                return None
            stages += group
            outer, number = inner, number + 1
        return self._judged(Plan(stages=tuple(stages)), target)

    def _group(
        self, inner: int, outer: int, machines: int, replicas: int, later: int, target: float, number: int
    ) -> list[Stage] | None:
        """The stages of a group, first stage first; None if stopped. ``later`` adds up the degrees of later groups."""
        size, ranks = self.model.problem.devices_per_machine, len(self.model.degrees)
        waiting = -(-later // machines)
        within = target * (1.0 + float(self.work.arrays.limits[3]))
        fill_group(self.work, self.machines, self.tables, inner, outer, machines, within, math.inf, waiting, waiting)
        if self.work.stop[0] != 0:
            return None
        devices = int(self.tables.room[outer, :, replicas].argmax())
        if self.tables.room[outer, devices, replicas] < waiting:
            raise DisagreementError("a group of stages cannot be followed back to a plan")
        stages = []
        while outer > inner:
            code, d = divmod(int(self.tables.stage[outer, devices, replicas]), size + 1)
            before, r = divmod(code, ranks)
            in_flight = -(-(waiting + replicas) // d)
            stage = self._stage(kernels.Stage(before, outer, r), d * machines, in_flight, machines, number)
            if stage is None:
                return None
            stages.append(stage)
            outer, devices, replicas = before, devices - d * self.model.degrees[r], replicas - d
        return stages


def new_family(
    model: HybridInstance, sets: Iterable[int], stop: npt.NDArray[np.int64], room: Room = most_room
) -> Family:
    """The family of a problem's suffix sets, with machines where it has a hierarchy."""
    return (Family if model.problem.hierarchy is None else MachineFamily)(model, sets, stop, room)


def _machine_arrays(model: HybridInstance, sets: list[int]) -> MachineArrays:
    problem = model.problem
    assert problem.hierarchy is not None
    bandwidth = problem.hierarchy.machine_bandwidth_bytes_per_unit
    bits = as_bits(sets, len(model.order)).astype(np.float64)
    edge_time = np.array([2.0 * value / bandwidth for value in model.bytes], dtype=np.float64)
    weights = np.array([problem.layers[place].whole_weight_bytes / bandwidth for place in model.order])
    return MachineArrays(
        weight=sums_over(weights[None, :], bits),
        edge_time=edge_time,
        size=np.array([problem.devices_per_machine, problem.machines], dtype=np.int64),
    )
