"""The time of one optimizer step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from partita.problems.hybrid.kind import HybridKind
from partita.problems.hybrid.options import Options
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.kind import Solver, lazy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from partita.nouns.pipeline import Plan
    from partita.problems.facets.timeline import Remembered
    from partita.problems.hybrid.evaluation import StepEvaluation
    from partita.problems.hybrid.files.plans import StepPlanFiles
    from partita.problems.hybrid.layer import Layer
    from partita.problems.hybrid.step.from_model import StepFromModel
    from partita.problems.hybrid.step.replicas import StepReplicas
    from partita.problems.hybrid.step.report import StepReport
    from partita.problems.hybrid.step.timeline import StepTimeLine
    from partita.problems.kind import Evaluate, Solvers
    from partita.simulator.pipeline import Pipeline


class StepKind(HybridKind):
    """Schedules, stages of ZeRO, context- and expert-parallel degrees, and several kinds of devices."""

    title = "hybrid problems about a step"
    solvers: lazy[Solvers[HybridProblem, Plan]] = lazy("partita.problems.hybrid.step.solvers:SOLVERS")
    baselines: lazy[Solvers[HybridProblem, Plan]] = lazy("partita.problems.hybrid.step.baselines:BASELINES")
    model: lazy[StepFromModel] = lazy("partita.problems.hybrid.step.from_model:StepFromModel")
    files: lazy[StepPlanFiles] = lazy("partita.problems.hybrid.files.plans:StepPlanFiles")
    report: lazy[StepReport] = lazy("partita.problems.hybrid.step.report:StepReport")
    timeline: lazy[StepTimeLine] = lazy("partita.problems.hybrid.step.timeline:StepTimeLine")
    replicas: lazy[StepReplicas] = lazy("partita.problems.hybrid.step.replicas:StepReplicas")
    evaluate: lazy[Evaluate[HybridProblem, Plan, StepEvaluation]] = lazy(
        "partita.problems.hybrid.step.evaluate:evaluate"
    )
    least_memory: lazy[Callable[[HybridProblem, Layer], float]] = lazy(
        "partita.problems.hybrid.step.explain:least_memory"
    )
    lowered: lazy[Callable[..., Pipeline]] = lazy("partita.problems.hybrid.step.lowered:lowered_step")
    simulated_step: lazy[Remembered[HybridProblem, Plan, Any]] = lazy(
        "partita.problems.hybrid.step.timeline:simulated_step"
    )

    def default_solver(self, problem: HybridProblem, options: Options) -> str:
        """By what stages may be."""
        return "uniform" if problem.step.mesh == "uniform" and not problem.others else "rows"

    def baselines_of(self, problem: HybridProblem) -> Sequence[Solver[HybridProblem, Any, Any]]:
        """Those for as many kinds of devices as there are."""
        from partita.problems.hybrid.step.baselines.kinds import OnKinds

        return [each for each in self.baselines if isinstance(each, OnKinds) == bool(problem.others)]


STEP = StepKind()
