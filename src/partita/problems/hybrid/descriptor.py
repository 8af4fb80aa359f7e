"""The hybrid problem, as the rest of the package sees it: one name and file format for two objectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from partita.nouns.pipeline import Plan
from partita.problems.attributes import lazy
from partita.problems.facets.stages import Replication
from partita.problems.hybrid.kind import HybridKind
from partita.problems.hybrid.options import HybridOptions
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.kind import Solver


class SteadyReplicas(Replication[HybridProblem, Plan]):
    """Numbers of stages and replicas are not searched."""

    def refusal(self, problem: HybridProblem) -> str:
        return "is about an endless stream of microbatches; numbers of stages and replicas are searched for steps"


class SteadyKind(HybridKind):
    """The time per sample, as published (Piper, NeurIPS 2021), with machines of several devices."""

    title = "hybrid problems about the time per sample"
    usual_solver = "exact"
    solvers = lazy("partita.problems.hybrid.steady.solvers:SOLVERS")
    baselines = lazy("partita.problems.hybrid.steady.baselines:BASELINES")
    model = lazy("partita.problems.hybrid.steady.from_model:SteadyFromModel")
    report = lazy("partita.problems.hybrid.steady.report:SteadyReport")
    timeline = lazy("partita.problems.hybrid.steady.timeline:SteadyTimeLine")
    replicas = lazy("partita.problems.hybrid.descriptor:SteadyReplicas")
    evaluate = lazy("partita.problems.hybrid.steady.evaluate:evaluate")
    certify = lazy("partita.problems.hybrid.steady.certificate:certify")
    least_memory = lazy("partita.problems.hybrid.steady.table:least_memory")
    smallest_devices = lazy("partita.problems.hybrid.steady.table:smallest_devices")
    lowered = lazy("partita.problems.hybrid.steady.lowered:lowered")
    simulated_step = lazy("partita.problems.hybrid.steady.timeline:simulated_step")


class StepKind(HybridKind):
    """One optimizer step: schedules, ZeRO, context- and expert-parallel degrees, and several kinds of devices."""

    title = "hybrid problems about a step"
    solvers = lazy("partita.problems.hybrid.step.solvers:SOLVERS")
    baselines = lazy("partita.problems.hybrid.step.baselines:BASELINES")
    #: Of the baselines those for several kinds of devices.
    on_kinds = lazy("partita.problems.hybrid.step.baselines:ON_KINDS")
    model = lazy("partita.problems.hybrid.step.from_model:StepFromModel")
    files = lazy("partita.problems.hybrid.files.plans:StepPlanFiles")
    report = lazy("partita.problems.hybrid.step.report:StepReport")
    timeline = lazy("partita.problems.hybrid.step.timeline:StepTimeLine")
    replicas = lazy("partita.problems.hybrid.step.replicas:StepReplicas")
    evaluate = lazy("partita.problems.hybrid.step.evaluate:evaluate")
    least_memory = lazy("partita.problems.hybrid.step.solvers.candidates:least_memory")
    lowered = lazy("partita.problems.hybrid.step.lowered:lowered_step")
    simulated_step = lazy("partita.problems.hybrid.step.timeline:simulated_step")

    def default_solver(self, problem: HybridProblem, options: HybridOptions) -> str:
        """By what stages may be."""
        return "uniform" if problem.step.mesh == "uniform" and not problem.others else "rows"

    def baselines_of(self, problem: HybridProblem) -> Sequence[Solver[HybridProblem, Any, Any]]:
        """Those for as many kinds of devices as there are."""
        added = self.added("baseline")
        return [each for each in self.baselines if each in added or (each in self.on_kinds) == bool(problem.others)]


STEADY, STEP = SteadyKind(), StepKind()


class Hybrid(HybridKind):
    """The time per sample of an endless stream of microbatches, or the time of one optimizer step."""

    parts = (STEADY, STEP)
    model = lazy("partita.problems.hybrid.from_model:HybridFromModel")
    solvers = lazy("partita.problems.hybrid.lists:SOLVERS")
    baselines = lazy("partita.problems.hybrid.lists:BASELINES")
    replicas = lazy("partita.problems.hybrid.step.replicas:StepReplicas")
    samples = lazy("partita.problems.hybrid.samples:SAMPLES")

    def of(self, problem: HybridProblem) -> HybridKind:
        return STEADY if problem.training is None else STEP


HYBRID = Hybrid()
