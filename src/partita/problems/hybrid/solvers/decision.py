"""Is there a plan within a target? Asked of a family of suffix sets."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from partita.errors import DisagreementError
from partita.kernels.hybrid.arrays import HybridArrays, HybridKnown, HybridWork, Stage
from partita.kernels.hybrid.decide import NONE, STEP, DeviceTable, decide, trace
from partita.kernels.hybrid.stages import lay_out, least_time
from partita.problems.hybrid.downsets import as_bits
from partita.problems.hybrid.evaluate import evaluate
from partita.problems.hybrid.instance import HybridInstance, build_arrays, new_scratch
from partita.problems.hybrid.plan import HybridPlan, HybridStage
from partita.problems.hybrid.room import Room, is_tight, most_room
from partita.rounding import leq

#: Most stages, and most pairs of a kind of stage and a number of microbatches in flight, whose times are remembered.
_MOST_STAGES = 2_000_000
_MOST_TIMES = 10_000_000


class Tight(Exception):
    """A plan needs exactly what the evaluator may or may not accept, depending on the order of its sums."""


class Family:
    """Suffix sets whose differences may become stages, and the table over them.

    The empty set and the whole model are among the sets. A ``stop`` other than 0 asks running decisions to return. With
    the usual ``room`` what is refuted holds for all plans that the evaluator accepts.
    """

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
        limits = np.full(self.model.width + 1, self.model.problem.devices, dtype=np.int32)
        return self.fill(target, limits, np.empty((1, 1)))

    def fill(self, target: float, limits: npt.NDArray[np.int32], least: npt.NDArray[np.float64]) -> int:
        """As the kernel ``decide``."""
        return decide(self.work, DeviceTable(self.fewest, least, limits, self.ahead), target)

    def _rebuild(self, target: float) -> tuple[float, HybridPlan] | None:
        steps = np.empty((len(self.model.order) + 1, STEP), dtype=np.int32)
        count = trace(self.work, target, self.fewest, steps)
        if self.work.stop[0] != 0:
            return None
        if count < 0:
            raise DisagreementError("the table of a hybrid decision cannot be followed back to a plan")
        stages = []
        remaining = int(steps[:count, 3].sum())
        for inner, outer, r, d in steps[:count].tolist():
            stage = self._stage(Stage(inner, outer, r), d, -(-remaining // d))
            if stage is None:
                return None
            remaining -= d
            stages.append(stage)
        return self._judged(HybridPlan(stages=tuple(stages)), target)

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

    def _stage(
        self, stage: Stage, replicas: int, in_flight: int, machines: int | None = None, group: int | None = None
    ) -> HybridStage | None:
        """A stage with the fastest configurations that fit; None if stopped."""
        problem, share = self.model.problem, machines or 1
        # Inside a machine, a batch is what one of the group's machines has of it.
        sync = problem.sync_factor(replicas // share) * (share if problem.weight_sync_per_batch else 1)
        time = least_time(self.work, stage, replicas, in_flight, sync, math.inf, False)
        if self.work.stop[0] != 0:
            return None
        if math.isinf(time):
            raise DisagreementError("a stage of a hybrid plan has no configurations that fit")
        operators, configurations = [], {}
        for place, v in sorted((place, v) for v, place in enumerate(self.model.order)):
            if (self.sets[stage.outer] & ~self.sets[stage.inner]) >> v & 1:
                option = int(self.work.scratch.best[v]) - int(self.work.arrays.option_ptr[stage.r, v])
                operators.append(problem.layers[place].id)
                configurations[operators[-1]] = self.model.options[stage.r][v][option].id
        return HybridStage(
            operators=tuple(operators),
            data_parallel=replicas,
            tensor_parallel=self.model.degrees[stage.r],
            configurations=configurations,
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
    nothing = np.zeros(1, dtype=np.int32)
    return HybridKnown(nothing, nothing, nothing, nothing, np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1))


def _kinds(
    model: HybridInstance, sets: list[int]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The kind of each stage, and an example of each kind.

    Two stages are of one kind if they have equally many layers of every sort; layers of one sort have the same options.
    """
    sorts: dict[object, int] = {}
    of_layer = []
    for v in range(len(model.order)):
        menus = tuple(
            tuple((c.time, c.memory_per_microbatch_bytes, c.memory_bytes) for c in row[v]) for row in model.options
        )
        of_layer.append(sorts.setdefault(menus, len(sorts)))
    size, n = len(sets), len(of_layer)
    bits = as_bits(sets, n)
    counts = np.stack([bits[:, np.array(of_layer) == sort].sum(axis=1) for sort in range(len(sorts))], dtype=np.int64)
    # A subset has no layer outside its superset; the order of the sets puts it first.
    outside = bits.astype(np.float32) @ (1 - bits.astype(np.float32)).T
    inners, outers = np.nonzero(np.triu(outside == 0, 1))
    # Numbers that tell the counts apart unless two happen to collide, which is checked.
    key = np.random.default_rng(0).integers(1, 1 << 62, size=len(sorts)) @ counts
    _, example, found = np.unique(key[outers] - key[inners], return_index=True, return_inverse=True)
    alike = example[found]
    for row in counts:
        difference = row[outers] - row[inners]
        if not np.array_equal(difference, difference[alike]):
            example = found = np.arange(len(inners))
            break
    kind = np.full(size * size, -1, dtype=np.int32)
    kind[inners * size + outers] = found
    return kind, inners[example].astype(np.int32), outers[example].astype(np.int32)
