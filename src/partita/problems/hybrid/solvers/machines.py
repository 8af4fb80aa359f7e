"""Is there a plan within a target, on machines of several devices? Asked of a family of suffix sets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from partita.errors import DisagreementError
from partita.kernels.hybrid.arrays import Stage
from partita.kernels.hybrid.machines import Machines, fill_group
from partita.problems.hybrid.downsets import as_bits
from partita.problems.hybrid.instance import HybridInstance, sums_over
from partita.problems.hybrid.room import Room, most_room
from partita.problems.hybrid.solvers.decision import Family, Placed


class MachineFamily(Family):
    """As ``Family``, for problems with a hierarchy."""

    machines: Machines

    def __init__(
        self, model: HybridInstance, sets: Iterable[int], stop: npt.NDArray[np.int64], room: Room = most_room
    ) -> None:
        super().__init__(model, sets, stop, room)
        self.machines = _machines(model, self.sets)

    def _way_back(self, target: float) -> Iterator[Placed]:
        size, total = self.model.problem.devices_per_machine, self.model.problem.machines
        outer, column = len(self.sets) - 1, self.model.width
        number = 0
        while outer > 0:
            while column > 0 and self.fewest[outer, column - 1] == self.fewest[outer, column]:
                column -= 1
            code, replicas = divmod(int(self.machines.group[outer, column]), size + 1)
            inner, machines = divmod(code, total + 1)
            if not 0 <= inner < outer:
                raise DisagreementError("the table of a decision about machines cannot be followed back to a plan")
            column -= machines * replicas
            yield from self._group(inner, outer, machines, replicas, column, target, number)
            outer, number = inner, number + 1

    def _group(
        self, inner: int, outer: int, machines: int, replicas: int, later: int, target: float, number: int
    ) -> Iterator[Placed]:
        """The stages of a group, first stage first. ``later`` adds up the degrees of later groups."""
        size, ranks, held = self.model.problem.devices_per_machine, len(self.model.degrees), self.machines
        waiting = -(-later // machines)
        within = target * (1.0 + float(self.work.arrays.limits[3]))
        fill_group(self.work, held, inner, outer, machines, within, math.inf, waiting, waiting)
        if self.work.stop[0] != 0:
            return
        devices = int(held.room[outer, :, replicas].argmax())
        if held.room[outer, devices, replicas] < waiting:
            raise DisagreementError("a group of stages cannot be followed back to a plan")
        while outer > inner:
            code, d = divmod(int(held.stage[outer, devices, replicas]), size + 1)
            before, r = divmod(code, ranks)
            yield Placed(Stage(before, outer, r), d * machines, -(-(waiting + replicas) // d), machines, number)
            outer, devices, replicas = before, devices - d * self.model.degrees[r], replicas - d


def new_family(
    model: HybridInstance, sets: Iterable[int], stop: npt.NDArray[np.int64], room: Room = most_room
) -> Family:
    """The family of a problem's suffix sets, with machines where it has a hierarchy."""
    return (Family if model.problem.hierarchy is None else MachineFamily)(model, sets, stop, room)


def _machines(model: HybridInstance, sets: list[int]) -> Machines:
    problem = model.problem
    assert problem.hierarchy is not None
    bandwidth, devices = problem.hierarchy.machine_bandwidth_bytes_per_unit, problem.devices_per_machine
    bits = as_bits(sets, len(model.order)).astype(np.float64)
    edge_time = np.array([2.0 * value / bandwidth for value in model.bytes], dtype=np.float64)
    weights = np.array([problem.layers[place].whole_weight_bytes / bandwidth for place in model.order])
    shape = (len(sets), devices + 1, devices + 1)
    return Machines(
        weight=sums_over(weights[None, :], bits),
        edge_time=edge_time,
        size=np.array([devices, problem.machines], dtype=np.int64),
        group=np.full((len(sets), model.width + 1), -1, dtype=np.int64),
        room=np.empty(shape, dtype=np.int32),
        stage=np.empty(shape, dtype=np.int64),
    )
