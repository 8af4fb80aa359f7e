"""What both objectives of hybrid problems share of a descriptor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from partita.nouns.pipeline import Plan
from partita.problems.attributes import lazy
from partita.problems.hybrid.layer import Layer
from partita.problems.hybrid.options import HybridChanges, HybridOptions, change
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.kind import NEARLY_FULL, Kind

if TYPE_CHECKING:
    from partita.problems.facets.timeline import Remembered
    from partita.problems.hybrid.evaluation import HybridEvaluation
    from partita.simulator.pipeline import Pipeline


class HybridKind(Kind[HybridProblem, Plan, "HybridEvaluation"]):
    """Stages with degrees of data and tensor parallelism, and ways to save memory for every layer."""

    summary = "train with data, tensor and pipeline parallelism at once, the slowest stage as fast as possible"
    problem = HybridProblem
    plan = Plan
    options = HybridOptions
    changes = HybridChanges
    baseline_time_s = 15.0
    files = lazy("partita.problems.hybrid.files.plans:HybridPlanFiles")
    report = lazy("partita.problems.hybrid.report.report:HybridReport")
    sweep = lazy("partita.problems.hybrid.sweep:HybridSweep")
    stages = lazy("partita.problems.hybrid.timeline:HybridStages")
    change = staticmethod(change)
    #: What ``explain_infeasible`` says, given this descriptor.
    explained: Callable[..., str] = lazy("partita.problems.hybrid.explain:explain_infeasible")
    #: Memory of a stage with one layer, one microbatch and as many replicas as there can be: no stage needs less.
    least_memory: Callable[[HybridProblem, Layer], float]
    #: The fewest devices that fit, in words; None where only a search finds them.
    smallest_devices: Callable[[HybridProblem], str | None] = staticmethod(lambda problem: None)
    #: The pipeline of a problem, a plan and its evaluation; ``behind`` synchronises weights behind the backward part of
    #: the last microbatch, which plans of a step decide themselves.
    lowered: Callable[..., Pipeline]
    #: The ``SimulatedStep`` of the same three; None if the plan cannot run at all.
    simulated_step: Remembered[HybridProblem, Plan, Any]

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

    def explain_infeasible(
        self, problem: HybridProblem, solver: object, options: HybridOptions, time_limit_s: float = math.inf
    ) -> str:
        return self.explained(self, problem, time_limit_s)
