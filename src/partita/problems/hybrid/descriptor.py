"""The hybrid problem, as the rest of the package sees it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from partita.problems.hybrid.options import Changes, Options, change
from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.kind import Kind, Solver

if TYPE_CHECKING:
    from partita.problems.facets.files import Files
    from partita.problems.facets.model import FromModel
    from partita.problems.facets.report import Report
    from partita.problems.facets.sweep import Sweep
    from partita.problems.hybrid.evaluate import HybridEvaluation

__all__ = ["HYBRID"]

#: A device whose memory is this full may owe its stage to the limit.
NEARLY_FULL = 0.8


class Hybrid(Kind[HybridProblem, HybridPlan, "HybridEvaluation"]):
    """Stages with degrees of data and tensor parallelism, and ways to save memory for every layer."""

    name = "hybrid"
    summary = "train with data, tensor and pipeline parallelism at once, the slowest stage as fast as possible"
    problem = HybridProblem
    plan = HybridPlan
    options = Options
    changes = Changes
    baseline_time_s = 15.0

    def change(self, problem: HybridProblem, changes: Changes) -> HybridProblem:
        """See ``Changes``."""
        return change(problem, changes)

    @property
    def solvers(self) -> Sequence[Solver[HybridProblem, HybridPlan, Options]]:
        """One, which is exact."""
        from partita.problems.hybrid.solvers import DEFAULT_HYBRID_SOLVERS

        return DEFAULT_HYBRID_SOLVERS

    @property
    def baselines(self) -> Sequence[Solver[HybridProblem, HybridPlan, Options]]:
        """Usual layouts, and planners that do without one of the means."""
        from partita.problems.hybrid.baselines import DEFAULT_BASELINES

        return DEFAULT_BASELINES

    def evaluate(self, problem: HybridProblem, plan: HybridPlan) -> HybridEvaluation:
        """The slowest stage or link."""
        from partita.problems.hybrid.evaluate import evaluate

        return evaluate(problem, plan)

    def scope(self, options: Options) -> str:
        """Stages are always in a row."""
        return "acyclic"

    def explain_infeasible(
        self, problem: HybridProblem, solver: Solver[HybridProblem, HybridPlan, Options], options: Options
    ) -> str:
        """The smallest device count or memory that would do."""
        from partita.problems.hybrid.explain import explain_infeasible

        return explain_infeasible(problem)

    def unlimited(self, problem: HybridProblem, evaluation: HybridEvaluation) -> HybridProblem | None:
        """Without memory limit, if some device's memory is nearly full."""
        limit = problem.memory_bytes
        if limit is None or all(stage.memory_bytes < NEARLY_FULL * limit for stage in evaluation.stages):
            return None
        return problem.replace(memory_bytes=math.inf)

    @property
    def model(self) -> FromModel[HybridProblem]:
        """Training on devices of one kind."""
        from partita.problems.hybrid.from_model import HybridFromModel

        return HybridFromModel()

    @property
    def samples(self) -> Sequence[Sequence[HybridProblem]]:
        """See the function."""
        from partita.problems.hybrid.samples import samples

        return samples()

    @property
    def files(self) -> Files[HybridProblem, HybridPlan, HybridEvaluation]:
        """Result files."""
        from partita.problems.hybrid.files.plans import PlanFiles

        return PlanFiles(self.plan)

    @property
    def report(self) -> Report[HybridProblem, HybridPlan, HybridEvaluation]:
        """Stages with their degrees, the step, and where devices spend their time."""
        from partita.problems.hybrid.report.report import HybridReport

        return HybridReport()

    @property
    def sweep(self) -> Sweep[HybridProblem, HybridPlan]:
        """Devices, memory, bandwidth."""
        from partita.problems.hybrid.sweep import HybridSweep

        return HybridSweep(self)


HYBRID = Hybrid()
