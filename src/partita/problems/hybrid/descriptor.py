"""The hybrid problem, as the rest of the package sees it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from partita.nouns.pipeline import Plan
from partita.problems.hybrid.options import Changes, Options, change
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.kind import NEARLY_FULL, Kind, Solver, lazy

if TYPE_CHECKING:
    from partita.problems.hybrid.files.plans import PlanFiles
    from partita.problems.hybrid.from_model import HybridFromModel
    from partita.problems.hybrid.replicas import HybridReplicas
    from partita.problems.hybrid.report.report import HybridReport
    from partita.problems.hybrid.staged import HybridStages
    from partita.problems.hybrid.sweep import HybridSweep
    from partita.problems.hybrid.timeline import HybridTimeLine
    from partita.problems.hybrid.worth import HybridEvaluation
    from partita.problems.kind import Certify, Evaluate, Solvers


class Hybrid(Kind[HybridProblem, Plan, "HybridEvaluation"]):
    """Stages with degrees of data and tensor parallelism, and ways to save memory for every layer."""

    summary = "train with data, tensor and pipeline parallelism at once, the slowest stage as fast as possible"
    problem = HybridProblem
    plan = Plan
    options = Options
    changes = Changes
    baseline_time_s = 15.0
    solvers: lazy[Solvers[HybridProblem, Plan]] = lazy("partita.problems.hybrid.solvers:DEFAULT_HYBRID_SOLVERS")
    baselines: lazy[Solvers[HybridProblem, Plan]] = lazy("partita.problems.hybrid.baselines:DEFAULT_BASELINES")
    model: lazy[HybridFromModel] = lazy("partita.problems.hybrid.from_model:HybridFromModel")
    files: lazy[PlanFiles] = lazy("partita.problems.hybrid.files.plans:PlanFiles")
    report: lazy[HybridReport] = lazy("partita.problems.hybrid.report.report:HybridReport")
    sweep: lazy[HybridSweep] = lazy("partita.problems.hybrid.sweep:HybridSweep")
    timeline: lazy[HybridTimeLine] = lazy("partita.problems.hybrid.timeline:HybridTimeLine")
    stages: lazy[HybridStages] = lazy("partita.problems.hybrid.staged:HybridStages")
    replicas: lazy[HybridReplicas] = lazy("partita.problems.hybrid.replicas:HybridReplicas")
    samples: lazy[Sequence[Sequence[HybridProblem]]] = lazy("partita.problems.hybrid.samples:SAMPLES")
    change = staticmethod(change)
    evaluate: lazy[Evaluate[HybridProblem, Plan, HybridEvaluation]] = lazy("partita.problems.hybrid.evaluate:evaluate")
    certify: lazy[Certify[HybridProblem]] = lazy("partita.problems.hybrid.certifying:certify")

    def default_solver(self, problem: HybridProblem, options: Options) -> str:
        """By the objective and what stages may be."""
        training = problem.training
        if training is None:
            return "exact"
        return "uniform" if training.mesh == "uniform" and not problem.others else "rows"

    def baselines_of(self, problem: HybridProblem) -> Sequence[Solver[HybridProblem, Plan, Options]]:
        """Those for the problem's objective."""
        from partita.problems.hybrid.baselines.by_objective import ByObjective
        from partita.problems.hybrid.baselines.kinds import OnKinds

        if problem.others:
            return [each for each in self.baselines if isinstance(each, OnKinds)]
        return [
            each
            for each in self.baselines
            if (each.of(problem) is not None if isinstance(each, ByObjective) else not isinstance(each, OnKinds))
        ]

    def explain_infeasible(
        self,
        problem: HybridProblem,
        solver: Solver[HybridProblem, Plan, Options],
        options: Options,
        time_limit_s: float = math.inf,
    ) -> str:
        from partita.problems.hybrid.explain import EXPLAIN_S, explain_infeasible

        return explain_infeasible(problem, min(EXPLAIN_S, time_limit_s))

    def unlimited(self, problem: HybridProblem, evaluation: HybridEvaluation) -> HybridProblem | None:
        """Without memory limit, if some device's memory is nearly full."""
        limit = problem.memory_bytes
        if (
            problem.others
            or limit is None
            or all(stage.memory_bytes < NEARLY_FULL * limit for stage in evaluation.stages)
        ):
            return None
        return problem.replace(memory_bytes=math.inf)


HYBRID = Hybrid()
