"""Is there a plan within a target? Asked of a family of suffix sets."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from partita.errors import DisagreementError
from partita.kernels.hybrid.arrays import HybridWork, Stage
from partita.kernels.hybrid.decide import NONE, STEP, DeviceTable, decide, trace
from partita.kernels.hybrid.stages import least_time
from partita.problems.hybrid.evaluate import evaluate
from partita.problems.hybrid.instance import HybridInstance, build_arrays, new_scratch
from partita.problems.hybrid.plan import HybridPlan, HybridStage
from partita.problems.hybrid.solvers.stage_memory import remember
from partita.units import leq


class Family:
    """Suffix sets whose differences may become stages, and the table over them.

    Parameters
    ----------
    model
        The problem.
    sets
        Suffix sets, the empty one and the whole model among them.
    stop
        One number; other than 0 asks running decisions to return.
    """

    def __init__(self, model: HybridInstance, sets: Iterable[int], stop: npt.NDArray[np.int64]) -> None:
        self.model = model
        arrays, self.sets = build_arrays(model, sets)
        self.work = HybridWork(arrays, new_scratch(model), remember(model, arrays, self.sets), stop)
        size = len(self.sets)
        self.fewest = np.empty((size, model.width + 1), dtype=np.int32)
        self.ahead = np.zeros(size, dtype=np.int32)

    @property
    def remembers(self) -> bool:
        """Whether times of stages are remembered."""
        return len(self.work.known.ptr) > 1

    def decide(self, target: float) -> tuple[float, HybridPlan] | bool | None:
        """A plan with stages within the target and its objective; False if there is none, None if stopped."""
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
            stage = self._stage(Stage(inner, outer, r), d, -(-remaining // d), self.model.problem.sync_factor(d))
            if stage is None:
                return None
            remaining -= d
            stages.append(stage)
        return self._judged(HybridPlan(stages=tuple(stages)), target)

    def _judged(self, plan: HybridPlan, target: float) -> tuple[float, HybridPlan]:
        """The plan with its objective, if it is what the table promised."""
        evaluation = evaluate(self.model.problem, plan)
        if not evaluation.feasible:
            raise DisagreementError(f"a hybrid plan fails: {evaluation.violations[0]}")
        if not leq(evaluation.objective, target):
            raise DisagreementError(f"a hybrid plan takes {evaluation.objective!r}, its target is {target!r}")
        return evaluation.objective, plan

    def _stage(
        self,
        stage: Stage,
        replicas: int,
        in_flight: int,
        sync: float,
        machines: int | None = None,
        group: int | None = None,
    ) -> HybridStage | None:
        """A stage with the fastest configurations that fit; None if stopped. ``sync`` is the weights' factor."""
        time = least_time(self.work, stage, replicas, in_flight, sync, math.inf, False)
        if self.work.stop[0] != 0:
            return None
        if math.isinf(time):
            raise DisagreementError("a stage of a hybrid plan has no configurations that fit")
        operators, configurations = [], {}
        for place, v in sorted((place, v) for v, place in enumerate(self.model.order)):
            if (self.sets[stage.outer] & ~self.sets[stage.inner]) >> v & 1:
                option = int(self.work.scratch.best[v]) - int(self.work.arrays.option_ptr[stage.r, v])
                operators.append(self.model.problem.layers[place].id)
                configurations[operators[-1]] = self.model.options[stage.r][v][option].id
        return HybridStage(
            operators=tuple(operators),
            data_parallel=replicas,
            tensor_parallel=self.model.degrees[stage.r],
            configurations=configurations,
            machines=machines,
            machine_group=group,
        )
