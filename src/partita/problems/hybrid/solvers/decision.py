"""Is there a plan within a target? Asked of a family of suffix sets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partita.errors import DisagreementError
from partita.kernels.hybrid.arrays import HybridArrays, HybridKnown, HybridWork, Stage
from partita.kernels.hybrid.decide import STEP, decide, trace
from partita.kernels.hybrid.device_table import NONE, DeviceTable
from partita.kernels.hybrid.machines import Machines
from partita.kernels.hybrid.stages import lay_out, least_time
from partita.problems.hybrid.downsets import as_bits
from partita.problems.hybrid.evaluate import evaluate
from partita.problems.hybrid.instance import (
    HybridInstance,
    build_arrays,
    configurations_of,
    new_scratch,
    nothing_known,
)
from partita.problems.hybrid.plan import HybridPlan, HybridStage
from partita.problems.hybrid.room import Room, is_tight, most_room
from partita.problems.hybrid.solvers.layer_sorts import sort_counts, stage_kinds
from partita.units import leq

#: Most stages, and most pairs of a kind of stage and a number of microbatches in flight, whose times are remembered.
_MOST_STAGES = 2_000_000
_MOST_TIMES = 10_000_000


class Placed(NamedTuple):
    """A stage of a plan: its replicas, microbatches in flight, and the machines and the number of its group."""

    stage: Stage
    replicas: int
    in_flight: int
    machines: int | None = None
    group: int | None = None


class Tight(Exception):
    """A plan needs exactly what the evaluator may or may not accept, depending on the order of its sums."""


class Family:
    """Suffix sets whose differences may become stages, and the table over them.

    The empty set and the whole model are among the sets. A ``stop`` other than 0 asks running decisions to return. With
    the usual ``room`` what is refuted holds for all plans that the evaluator accepts.
    """

    #: Where devices are in machines, what is known of these; the table then counts machines.
    machines: Machines | None = None

    def __init__(
        self, model: HybridInstance, sets: Iterable[int], stop: npt.NDArray[np.int64], room: Room = most_room
    ) -> None:
        self.model = model
        arrays, self.sets = build_arrays(model, sets, room)
        self.work = HybridWork(arrays, new_scratch(model), _remember(model, arrays, self.sets), stop)
        size = len(self.sets)
        self.fewest = np.empty((size, model.width + 1), dtype=np.int32)
        self.ahead = np.zeros(size, dtype=np.int32)

    @property
    def remembers(self) -> bool:
        """Whether times of stages are remembered."""
        return len(self.work.known.ptr) > 1

    def decide(self, target: float) -> tuple[float, HybridPlan] | bool | None:
        """A plan with stages within the target and its objective; False if there is none, None if stopped.

        Raises
        ------
        Tight
            If the evaluator does not accept the plan that was found, for what sums are rounded by.
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

    def fill(self, target: float, limits: npt.NDArray[np.int32], least: npt.NDArray[np.float64]) -> int:
        """As the kernel ``decide``."""
        return decide(self.work, self.machines, DeviceTable(self.fewest, least, limits, self.ahead), target)

    def _rebuild(self, target: float) -> tuple[float, HybridPlan] | None:
        stages = []
        for placed in self._way_back(target):
            stage = self._stage(placed)
            if stage is None:
                return None
            stages.append(stage)
        return None if self.work.stop[0] != 0 else self._judged(HybridPlan(stages=tuple(stages)), target)

    def _way_back(self, target: float) -> Iterator[Placed]:
        """The stages of the plan that the table holds, first stage first; it may break off if stopped."""
        steps = np.empty((len(self.model.order) + 1, STEP), dtype=np.int32)
        count = trace(self.work, target, self.fewest, steps)
        if count < 0 and self.work.stop[0] == 0:
            raise DisagreementError("the table of a hybrid decision cannot be followed back to a plan")
        remaining = int(steps[: max(0, count), 3].sum())
        for inner, outer, r, d in steps[: max(0, count)].tolist():
            yield Placed(Stage(inner, outer, r), d, -(-remaining // d))
            remaining -= d

    def _judged(self, plan: HybridPlan, target: float) -> tuple[float, HybridPlan]:
        """The plan with its objective, if it is what the table promised."""
        evaluation = evaluate(self.model.problem, plan)
        if is_tight(self.model.problem, plan, evaluation):
            raise Tight
        if not evaluation.feasible:
            raise DisagreementError(f"a hybrid plan fails: {evaluation.violations[0]}")
        if not leq(evaluation.objective, target):
            raise DisagreementError(f"a hybrid plan takes {evaluation.objective!r}, its target is {target!r}")
        return evaluation.objective, plan

    def _stage(self, placed: Placed) -> HybridStage | None:
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
        place = {layer.id: number for number, layer in enumerate(problem.layers)}
        operators = tuple(sorted(chosen, key=place.__getitem__))
        return HybridStage(
            operators=operators,
            data_parallel=replicas,
            tensor_parallel=self.model.degrees[stage.r],
            configurations={identity: chosen[identity] for identity in operators},
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


def _kinds(
    model: HybridInstance, sets: list[int]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The kind of each stage, and an example of each kind; those of one have equally many layers of every sort."""
    size, bits = len(sets), as_bits(sets, len(model.order)).astype(np.float32)
    # A subset has no layer outside its superset; the order of the sets puts it first.
    inners, outers = np.nonzero(np.triu(bits @ (1 - bits).T == 0, 1))
    example, found = stage_kinds(sort_counts(sets, model.options), inners, outers)
    kind = np.full(size * size, -1, dtype=np.int32)
    kind[inners * size + outers] = found
    return kind, inners[example].astype(np.int32), outers[example].astype(np.int32)
