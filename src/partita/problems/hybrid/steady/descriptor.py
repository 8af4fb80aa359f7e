"""The time per sample of an endless row of microbatches, as published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partita.nouns.pipeline import Plan
from partita.problems.facets.replicas import Replication
from partita.problems.hybrid.kind import HybridKind
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.kind import lazy

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from partita.problems.facets.timeline import Remembered
    from partita.problems.hybrid.evaluation import HybridEvaluation
    from partita.problems.hybrid.layer import Layer
    from partita.problems.hybrid.steady.from_model import SteadyFromModel
    from partita.problems.hybrid.steady.report import SteadyReport
    from partita.problems.hybrid.steady.timeline import SteadyTimeLine
    from partita.problems.kind import Certify, Evaluate, Solvers
    from partita.simulator.pipeline import Pipeline


class SteadyReplicas(Replication[HybridProblem, Plan]):
    """Numbers of stages and replicas are not searched."""

    def refusal(self, problem: HybridProblem) -> str:
        return "is about an endless row of microbatches; numbers of stages and replicas are searched for steps"


class SteadyKind(HybridKind):
    """Piper (NeurIPS 2021), with machines of several devices."""

    title = "hybrid problems about the time per sample"
    usual_solver = "exact"
    solvers: lazy[Solvers[HybridProblem, Plan]] = lazy("partita.problems.hybrid.steady.solvers:SOLVERS")
    baselines: lazy[Solvers[HybridProblem, Plan]] = lazy("partita.problems.hybrid.steady.baselines:BASELINES")
    model: lazy[SteadyFromModel] = lazy("partita.problems.hybrid.steady.from_model:SteadyFromModel")
    report: lazy[SteadyReport] = lazy("partita.problems.hybrid.steady.report:SteadyReport")
    timeline: lazy[SteadyTimeLine] = lazy("partita.problems.hybrid.steady.timeline:SteadyTimeLine")
    replicas: lazy[SteadyReplicas] = lazy("partita.problems.hybrid.steady.descriptor:SteadyReplicas")
    evaluate: lazy[Evaluate[HybridProblem, Plan, HybridEvaluation]] = lazy(
        "partita.problems.hybrid.steady.evaluate:evaluate"
    )
    certify: lazy[Certify[HybridProblem]] = lazy("partita.problems.hybrid.steady.certificate:certify")
    least_memory: lazy[Callable[[HybridProblem, Layer], float]] = lazy(
        "partita.problems.hybrid.steady.explain:least_memory"
    )
    smallest_devices: lazy[Callable[[HybridProblem], str | None]] = lazy(
        "partita.problems.hybrid.steady.explain:smallest_devices"
    )
    lowered: lazy[Callable[..., Pipeline]] = lazy("partita.problems.hybrid.steady.lowered:lowered")
    simulated_step: lazy[Remembered[HybridProblem, Plan, Any]] = lazy(
        "partita.problems.hybrid.steady.timeline:simulated_step"
    )


STEADY = SteadyKind()
