"""Is there a plan within a target? Asked of a family of suffix sets."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from partita.errors import DisagreementError
from partita.kernels.hybrid.decide import NONE, decide
from partita.kernels.hybrid.trace import STEP, choose, trace
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
        self.model, self.stop = model, stop
        self.arrays, self.sets = build_arrays(model, sets)
        self.scratch = new_scratch(model)
        self.known = remember(model, self.arrays, self.sets)
        size = len(self.sets)
        self.fewest = np.empty((size, model.width + 1), dtype=np.int32)
        self.ahead = np.zeros(size, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.sets)

    @property
    def remembers(self) -> bool:
        """Whether times of stages are remembered."""
        return len(self.known.ptr) > 1

    def decide(self, target: float) -> tuple[float, HybridPlan] | bool | None:
        """A plan with stages within the target and its objective; False if there is none, None if stopped."""
        found = self._fill(target)
        if found < 0 or self.stop[0] != 0:
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
        return decide(self.arrays, self.scratch, self.known, target, limits, self.fewest, least, self.ahead, self.stop)

    def _rebuild(self, target: float) -> tuple[float, HybridPlan] | None:
        steps = np.empty((len(self.model.order) + 1, STEP), dtype=np.int32)
        count = trace(self.arrays, self.scratch, target, self.fewest, self.model.width, steps, self.stop)
        if self.stop[0] != 0:
            return None
        if count < 0:
            raise DisagreementError("the table of a hybrid decision cannot be followed back to a plan")
        stages = []
        remaining = int(steps[:count, 3].sum())
        for inner, outer, r, d, _ in steps[:count].tolist():
            sync = self.model.problem.sync_factor(d)
            time = choose(self.arrays, self.scratch, inner, outer, r, sync, d, -(-remaining // d), self.stop)
            if self.stop[0] != 0:
                return None
            if math.isinf(time):
                raise DisagreementError("a stage of a hybrid plan has no configurations that fit")
            remaining -= d
            stages.append(self._stage(self.sets[outer] & ~self.sets[inner], r, d))
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
        self, members: int, r: int, replicas: int, machines: int | None = None, group: int | None = None
    ) -> HybridStage:
        """A stage with the configurations that were chosen last."""
        layers = self.model.problem.layers
        configurations = {}
        for v, place in enumerate(self.model.order):
            if members >> v & 1:
                option = int(self.scratch.best[v]) - int(self.arrays.option_ptr[r, v])
                configurations[layers[place].id] = self.model.options[r][v][option].id
        operators = self.model.ids(members)
        return HybridStage(
            operators=operators,
            data_parallel=replicas,
            tensor_parallel=self.model.degrees[r],
            configurations={identity: configurations[identity] for identity in operators},
            machines=machines,
            machine_group=group,
        )
