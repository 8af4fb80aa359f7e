"""Is there a plan within a target? Asked of a family of downsets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.hybrid.arrays import HybridArrays, HybridKnown, HybridWork, StageIndex
from partita.engines.kernels.hybrid.decide import STEP, decide, trace
from partita.engines.kernels.hybrid.device_table import NONE, DeviceTable
from partita.engines.kernels.hybrid.machines import Machines, fill_group
from partita.engines.kernels.hybrid.stages import lay_out, least_time
from partita.ground.errors import DisagreementError
from partita.ground.rounding import leq
from partita.nouns.pipeline import Plan, Stage
from partita.problems.hybrid.downsets import as_bits
from partita.problems.hybrid.instance import (
    HybridInstance,
    build_arrays,
    configurations_of,
    new_scratch,
    nothing_known,
    sort_counts,
    stage_kinds,
    sums_over,
)
from partita.problems.hybrid.room import Room, is_tight, most_room
from partita.problems.hybrid.steady.evaluate import evaluate

#: Most stages, and most pairs of a kind of stage and a number of microbatches in flight, whose times are remembered.
_MOST_STAGES = 2_000_000
_MOST_TIMES = 10_000_000


class Tight(Exception):
    """A plan needs exactly what the evaluator may or may not accept, depending on the order of its sums."""


class Family:
    """Downsets whose differences may become stages, and the table over them.

    The empty set and the whole model are among the sets. A ``stop`` other than 0 asks running decisions to return. With
    the usual ``room`` what is refuted holds for all plans that the evaluator accepts. The table of a problem with a
    hierarchy counts machines.
    """

    def __init__(self, model: HybridInstance, sets: Iterable[int], stop: Longs, room: Room = most_room) -> None:
        self.model = model
        arrays, self.sets = build_arrays(model, sets, room)
        self.work = HybridWork(arrays, new_scratch(model), _remember(model, arrays, self.sets), stop)
        self.machines = None if model.problem.hierarchy is None else _machines(model, self.sets)
        self.fewest = np.empty((len(self.sets), model.width + 1), dtype=np.int32)
        self.ahead = np.zeros(len(self.sets), dtype=np.int32)

    @property
    def remembers(self) -> bool:
        """Whether times of stages are remembered."""
        return len(self.work.known.ptr) > 1

    def decide(self, target: float) -> tuple[float, Plan] | bool | None:
        """A plan with stages within the target and its objective; False if there is none, None if stopped.

        ``Tight`` is raised if the evaluator does not accept the plan that was found, for what sums are rounded by.
        """
        found = self._fill(target)
        if found < 0 or self.work.stop[0] != 0:
            return None
        return False if found >= NONE else self._rebuild(target)

    def fewest_devices(self, target: float) -> int | None:
        """The fewest devices with which every stage stays within the target; None if there are too few, or stopped."""
        found = self._fill(target)
        return None if found < 0 or found >= NONE else found

    def _fill(self, target: float) -> int:
        problem = self.model.problem
        most = problem.devices if self.machines is None else problem.machines
        return self.fill(target, np.full(self.model.width + 1, most, dtype=np.int32), np.empty((1, 1)))

    def fill(self, target: float, limits: Ints, least: Floats) -> int:
        """As the kernel ``decide``."""
        return decide(self.work, self.machines, DeviceTable(self.fewest, least, limits, self.ahead), target)

    def _rebuild(self, target: float) -> tuple[float, Plan] | None:
        stages = []
        if self.machines is None:
            found = single_stages(self.model, self.work, self.fewest, target)
        else:
            found = stages_of_groups(self.model, self.work, self.machines, self.fewest, target)
        for placed in found:
            stage = self._stage(placed)
            if stage is None:
                return None
            stages.append(stage)
        return None if self.work.stop[0] != 0 else self._judged(Plan(stages=tuple(stages)), target)

    def _judged(self, plan: Plan, target: float) -> tuple[float, Plan]:
        """The plan with its objective, if it is what the table promised."""
        evaluation = evaluate(self.model.problem, plan)
        if is_tight(self.model.problem, plan, evaluation):
            raise Tight
        if not evaluation.feasible:
            raise DisagreementError(f"a hybrid plan fails: {evaluation.violations[0]}")
        if not leq(evaluation.objective, target):
            raise DisagreementError(f"a hybrid plan takes {evaluation.objective!r}, its target is {target!r}")
        return evaluation.objective, plan

    def _stage(self, placed: PlacedStage) -> Stage | None:
        """A stage with the fastest configurations that fit; None if stopped."""
        stage, replicas, in_flight, machines, group = placed
        problem, share = self.model.problem, machines or 1
        # Inside a machine, a batch is what one of the group's machines has of it.
        sync = problem.sync_factor(replicas // share) * (share if problem.weight_sync_per_batch else 1)
        time = least_time(self.work, stage, replicas, in_flight, sync, math.inf, False)
        if self.work.stop[0] != 0:
            return None
        if math.isinf(time):
            raise DisagreementError("a stage of a hybrid plan has no configurations that fit")
        chosen = configurations_of(self.model, self.work, self.sets, stage)
        return Stage(
            operators=tuple(chosen),
            data_parallel=replicas,
            tensor_parallel=self.model.degrees[stage.r],
            configurations=chosen,
            machines=machines,
            machine_group=group,
        )


def _remember(model: HybridInstance, arrays: HybridArrays, sets: list[int]) -> HybridKnown:
    """Room to remember the least times of stages; none where there are too many, or where they depend on replicas."""
    size, ranks = len(sets), len(model.degrees)
    if size * size * ranks <= _MOST_STAGES and not model.problem.shards:
        kind, inner, outer = _kinds(model, sets)
        free, ptr = np.zeros(len(inner) * ranks, dtype=np.int32), np.zeros(len(inner) * ranks + 1, dtype=np.int64)
        times = lay_out(arrays, inner, outer, free, ptr)
        if times <= _MOST_TIMES:
            return HybridKnown(kind, inner, outer, free, ptr, np.full(times + 1, np.nan), np.full(times + 1, np.nan))
    return nothing_known()


def _kinds(model: HybridInstance, sets: list[int]) -> tuple[Ints, Ints, Ints]:
    """The kind of each stage, and an example of each kind; those of one have equally many layers of every sort."""
    size, bits = len(sets), as_bits(sets, len(model.order)).astype(np.float32)
    # A subset has no layer outside its superset; the order of the sets puts it first.
    inners, outers = np.nonzero(np.triu(bits @ (1 - bits).T == 0, 1))
    example, found = stage_kinds(sort_counts(sets, model.options), inners, outers)
    kind = np.full(size * size, -1, dtype=np.int32)
    kind[inners * size + outers] = found
    return kind, inners[example].astype(np.int32), outers[example].astype(np.int32)


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


class PlacedStage(NamedTuple):
    """A stage of a plan: its replicas, microbatches in flight, and the machines and the number of its group."""

    stage: StageIndex
    replicas: int
    in_flight: int
    machines: int | None = None
    group: int | None = None


def single_stages(model: HybridInstance, work: HybridWork, fewest: Ints, target: float) -> Iterator[PlacedStage]:
    """The stages of the plan that a table of devices holds, first stage first; they may break off if stopped."""
    steps = np.empty((len(model.order) + 1, STEP), dtype=np.int32)
    count = trace(work, target, fewest, steps)
    if count < 0 and work.stop[0] == 0:
        raise DisagreementError("the table of a hybrid decision cannot be followed back to a plan")
    found = steps[: max(0, count)]
    behind = int(found[:, 3].sum())
    for inner, outer, r, d in found.tolist():
        yield PlacedStage(StageIndex(inner, outer, r), d, -(-behind // d))
        behind -= d


def stages_of_groups(
    model: HybridInstance, work: HybridWork, machines: Machines, fewest: Ints, target: float
) -> Iterator[PlacedStage]:
    """As ``single_stages``, of a table of machines."""
    size, total = machines.size.tolist()
    ranks, within = len(model.degrees), target * (1.0 + float(work.arrays.limits[3]))
    outer, column, number = len(fewest) - 1, model.width, 0
    while outer > 0:
        while column > 0 and fewest[outer, column - 1] == fewest[outer, column]:
            column -= 1
        code, replicas = divmod(int(machines.group[outer, column]), size + 1)
        first, shared = divmod(code, total + 1)
        if not 0 <= first < outer:
            raise DisagreementError("the table of a decision about machines cannot be followed back to a plan")
        column -= shared * replicas
        # The table of the group, for the microbatches that later groups hold.
        waiting = -(-column // shared)
        fill_group(work, machines, first, outer, shared, within, math.inf, waiting, waiting)
        if work.stop[0] != 0:
            return
        devices = int(machines.room[outer, :, replicas].argmax())
        if machines.room[outer, devices, replicas] < waiting:
            raise DisagreementError("a group of stages cannot be followed back to a plan")
        while outer > first:
            code, d = divmod(int(machines.stage[outer, devices, replicas]), size + 1)
            inner, r = divmod(code, ranks)
            yield PlacedStage(StageIndex(inner, outer, r), d * shared, -(-(waiting + replicas) // d), shared, number)
            outer, devices, replicas = inner, devices - d * model.degrees[r], replicas - d
        number += 1
