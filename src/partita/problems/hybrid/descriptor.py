"""The hybrid problem, as the rest of the package sees it: one name and file format for two objectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from partita.nouns.pipeline import Plan
from partita.problems.attributes import lazy
from partita.problems.facets.stages import Replication
from partita.problems.hybrid.kind import HybridKind
from partita.problems.hybrid.options import HybridOptions
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.kind import Solver

if TYPE_CHECKING:
    from collections.abc import Callable

    from partita.problems.facets.timeline import Remembered
    from partita.problems.hybrid.evaluation import HybridEvaluation, StepEvaluation
    from partita.problems.hybrid.files.plans import StepPlanFiles
    from partita.problems.hybrid.from_model import HybridFromModel
    from partita.problems.hybrid.layer import Layer
    from partita.problems.hybrid.steady.from_model import SteadyFromModel
    from partita.problems.hybrid.steady.report import SteadyReport
    from partita.problems.hybrid.steady.timeline import SteadyTimeLine
    from partita.problems.hybrid.step.from_model import StepFromModel
    from partita.problems.hybrid.step.replicas import StepReplicas
    from partita.problems.hybrid.step.report import StepReport
    from partita.problems.hybrid.step.timeline import StepTimeLine
    from partita.problems.kind import Certify, Evaluate, Solvers
    from partita.simulator.pipeline import Pipeline


class SteadyReplicas(Replication[HybridProblem, Plan]):
    """Numbers of stages and replicas are not searched."""

    def refusal(self, problem: HybridProblem) -> str:
        return "is about an endless stream of microbatches; numbers of stages and replicas are searched for steps"


class SteadyKind(HybridKind):
    """The time per sample, as published (Piper, NeurIPS 2021), with machines of several devices."""

    title = "hybrid problems about the time per sample"
    usual_solver = "exact"
    solvers: lazy[Solvers[HybridProblem, Plan]] = lazy("partita.problems.hybrid.steady.solvers:SOLVERS")
    baselines: lazy[Solvers[HybridProblem, Plan]] = lazy("partita.problems.hybrid.steady.baselines:BASELINES")
    model: lazy[SteadyFromModel] = lazy("partita.problems.hybrid.steady.from_model:SteadyFromModel")
    report: lazy[SteadyReport] = lazy("partita.problems.hybrid.steady.report:SteadyReport")
    timeline: lazy[SteadyTimeLine] = lazy("partita.problems.hybrid.steady.timeline:SteadyTimeLine")
    replicas: lazy[SteadyReplicas] = lazy("partita.problems.hybrid.descriptor:SteadyReplicas")
    evaluate: lazy[Evaluate[HybridProblem, Plan, HybridEvaluation]] = lazy(
        "partita.problems.hybrid.steady.evaluate:evaluate"
    )
    certify: lazy[Certify[HybridProblem]] = lazy("partita.problems.hybrid.steady.certificate:certify")
    least_memory: lazy[Callable[[HybridProblem, Layer], float]] = lazy(
        "partita.problems.hybrid.steady.table:least_memory"
    )
    smallest_devices: lazy[Callable[[HybridProblem], str | None]] = lazy(
        "partita.problems.hybrid.steady.table:smallest_devices"
    )
    lowered: lazy[Callable[..., Pipeline]] = lazy("partita.problems.hybrid.steady.lowered:lowered")
    simulated_step: lazy[Remembered[HybridProblem, Plan, Any]] = lazy(
        "partita.problems.hybrid.steady.timeline:simulated_step"
    )


class StepKind(HybridKind):
    """One optimizer step: schedules, ZeRO, context- and expert-parallel degrees, and several kinds of devices."""

    title = "hybrid problems about a step"
    solvers: lazy[Solvers[HybridProblem, Plan]] = lazy("partita.problems.hybrid.step.solvers:SOLVERS")
    baselines: lazy[Solvers[HybridProblem, Plan]] = lazy("partita.problems.hybrid.step.baselines:BASELINES")
    #: Of the baselines those for several kinds of devices.
    on_kinds: lazy[Solvers[HybridProblem, Plan]] = lazy("partita.problems.hybrid.step.baselines:ON_KINDS")
    model: lazy[StepFromModel] = lazy("partita.problems.hybrid.step.from_model:StepFromModel")
    files: lazy[StepPlanFiles] = lazy("partita.problems.hybrid.files.plans:StepPlanFiles")
    report: lazy[StepReport] = lazy("partita.problems.hybrid.step.report:StepReport")
    timeline: lazy[StepTimeLine] = lazy("partita.problems.hybrid.step.timeline:StepTimeLine")
    replicas: lazy[StepReplicas] = lazy("partita.problems.hybrid.step.replicas:StepReplicas")
    evaluate: lazy[Evaluate[HybridProblem, Plan, StepEvaluation]] = lazy(
        "partita.problems.hybrid.step.evaluate:evaluate"
    )
    least_memory: lazy[Callable[[HybridProblem, Layer], float]] = lazy(
        "partita.problems.hybrid.step.solvers.candidates:least_memory"
    )
    lowered: lazy[Callable[..., Pipeline]] = lazy("partita.problems.hybrid.step.lowered:lowered_step")
    simulated_step: lazy[Remembered[HybridProblem, Plan, Any]] = lazy(
        "partita.problems.hybrid.step.timeline:simulated_step"
    )

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
    model: lazy[HybridFromModel] = lazy("partita.problems.hybrid.from_model:HybridFromModel")
    solvers: lazy[Solvers[HybridProblem, Plan]] = lazy("partita.problems.hybrid.lists:SOLVERS")
    baselines: lazy[Solvers[HybridProblem, Plan]] = lazy("partita.problems.hybrid.lists:BASELINES")
    replicas: lazy[StepReplicas] = lazy("partita.problems.hybrid.step.replicas:StepReplicas")
    samples: lazy[Sequence[Sequence[HybridProblem]]] = lazy("partita.problems.hybrid.samples:SAMPLES")

    def of(self, problem: HybridProblem) -> HybridKind:
        return STEADY if problem.training is None else STEP


HYBRID = Hybrid()
