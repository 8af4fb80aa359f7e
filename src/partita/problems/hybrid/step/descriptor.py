"""The time of one optimizer step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from partita.problems.hybrid.kind import HybridKind
from partita.problems.hybrid.options import Options
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.kind import Solver, lazy


class StepKind(HybridKind):
    """Schedules, stages of ZeRO, context- and expert-parallel degrees, and several kinds of devices."""

    title = "hybrid problems about a step"
    solvers = lazy("partita.problems.hybrid.step.solvers:SOLVERS")
    baselines = lazy("partita.problems.hybrid.step.baselines:BASELINES")
    model = lazy("partita.problems.hybrid.step.from_model:StepFromModel")
    files = lazy("partita.problems.hybrid.files.plans:StepPlanFiles")
    report = lazy("partita.problems.hybrid.step.report:StepReport")
    timeline = lazy("partita.problems.hybrid.step.timeline:StepTimeLine")
    replicas = lazy("partita.problems.hybrid.step.replicas:StepReplicas")
    evaluate = lazy("partita.problems.hybrid.step.evaluate:evaluate")
    least_memory = lazy("partita.problems.hybrid.step.explain:least_memory")
    lowered = lazy("partita.problems.hybrid.step.lowered:lowered_step")
    simulated_step = lazy("partita.problems.hybrid.step.timeline:simulated_step")

    def default_solver(self, problem: HybridProblem, options: Options) -> str:
        """By what stages may be."""
        return "uniform" if problem.step.mesh == "uniform" and not problem.others else "rows"

    def baselines_of(self, problem: HybridProblem) -> Sequence[Solver[HybridProblem, Any, Any]]:
        """Those for as many kinds of devices as there are."""
        from partita.problems.hybrid.step.baselines.kinds import OnKinds

        return [each for each in self.baselines if isinstance(each, OnKinds) == bool(problem.others)]


STEP = StepKind()
