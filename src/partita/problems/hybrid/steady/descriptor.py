"""The time per sample of an endless row of microbatches, as published."""

from __future__ import annotations

from partita.nouns.pipeline import Plan
from partita.problems.facets.replicas import Replicas
from partita.problems.hybrid.kind import HybridKind
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.kind import lazy


class SteadyReplicas(Replicas[HybridProblem, Plan]):
    """Numbers of stages and replicas are not searched."""

    def refusal(self, problem: HybridProblem) -> str:
        return "is about an endless row of microbatches; numbers of stages and replicas are searched for steps"


class SteadyKind(HybridKind):
    """Piper (NeurIPS 2021), with machines of several devices."""

    title = "hybrid problems about the time per sample"
    usual_solver = "exact"
    solvers = lazy("partita.problems.hybrid.steady.solvers:SOLVERS")
    baselines = lazy("partita.problems.hybrid.steady.baselines:BASELINES")
    model = lazy("partita.problems.hybrid.steady.from_model:SteadyFromModel")
    report = lazy("partita.problems.hybrid.steady.report:SteadyReport")
    timeline = lazy("partita.problems.hybrid.steady.timeline:SteadyTimeLine")
    replicas = lazy("partita.problems.hybrid.steady.descriptor:SteadyReplicas")
    evaluate = lazy("partita.problems.hybrid.steady.evaluate:evaluate")
    certify = lazy("partita.problems.hybrid.steady.certificate:certify")
    least_memory = lazy("partita.problems.hybrid.steady.explain:least_memory")
    smallest_devices = lazy("partita.problems.hybrid.steady.explain:smallest_devices")
    lowered = lazy("partita.problems.hybrid.steady.lowered:lowered")
    simulated_step = lazy("partita.problems.hybrid.steady.timeline:simulated_step")


STEADY = SteadyKind()
