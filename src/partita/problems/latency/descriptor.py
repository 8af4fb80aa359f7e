"""The latency problem, as the rest of the package sees it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from partita.problems.attributes import lazy
from partita.problems.kind import NEARLY_FULL, Kind
from partita.problems.latency.options import LatencyChanges, change
from partita.problems.latency.plan import LatencyPlan, complete
from partita.problems.latency.problem import LatencyProblem

if TYPE_CHECKING:
    from partita.problems.latency.evaluate import LatencyEvaluation


class Latency(Kind[LatencyProblem, LatencyPlan, "LatencyEvaluation"]):
    """Pieces of a model on accelerators that exchange tensors through host memory, and the rest on the CPU."""

    summary = "run one sample as fast as possible over accelerators that exchange tensors through host memory"
    problem = LatencyProblem
    plan = LatencyPlan
    changes = LatencyChanges
    solvers = lazy("partita.problems.latency.solvers:DEFAULT_SOLVERS")
    usual_solver = "combined"
    bounds = lazy("partita.problems.latency.bounds:DEFAULT_BOUNDS")
    baselines = lazy("partita.problems.latency.baselines:DEFAULT_BASELINES")
    files = lazy("partita.problems.latency.files.plans:LatencyPlanFiles")
    model = lazy("partita.problems.latency.from_model:LatencyFromModel")
    report = lazy("partita.problems.latency.report:LatencyReport")
    sweep = lazy("partita.problems.latency.sweep:LatencySweep")
    timeline = lazy("partita.problems.latency.timeline:LatencyTimeLine")
    samples = lazy("partita.problems.latency.samples:SAMPLES")
    change = staticmethod(change)
    complete = staticmethod(complete)
    evaluate = lazy("partita.problems.latency.evaluate:evaluate")
    certify = lazy("partita.problems.latency.bounds.critical_path:certify")

    def unlimited(self, problem: LatencyProblem, evaluation: LatencyEvaluation) -> LatencyProblem | None:
        """Without memory limit, if some accelerator's memory is nearly full."""
        limit = problem.memory_bytes
        if limit is None or all(one.memory_bytes < NEARLY_FULL * limit for one in evaluation.accelerators):
            return None
        return problem.replace(memory_bytes=math.inf)


LATENCY = Latency()
