"""The makespan problem, as the rest of the package sees it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from partita.problems.attributes import lazy
from partita.problems.kind import NEARLY_FULL, Kind, Solver
from partita.problems.makespan.bounds.simple import explain_infeasible
from partita.problems.makespan.options import MakespanChanges, MakespanOptions, change
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem

if TYPE_CHECKING:
    from partita.problems.makespan.evaluate import MakespanEvaluation


class Makespan(Kind[MakespanProblem, MakespanPlan, "MakespanEvaluation"]):
    """Operators on devices that differ, flows over links that differ: the last operator ends as early as possible."""

    summary = "latency of one sample over unequal devices and links: every operator and every transfer is scheduled"
    problem = MakespanProblem
    plan = MakespanPlan
    options = MakespanOptions
    changes = MakespanChanges
    model = lazy("partita.problems.makespan.from_model:MakespanFromModel")
    solvers = lazy("partita.problems.makespan.solvers:DEFAULT_MAKESPAN_SOLVERS")
    bounds = lazy("partita.problems.makespan.bounds:DEFAULT_BOUNDS")
    baselines = lazy("partita.problems.makespan.baselines:DEFAULT_BASELINES")
    files = lazy("partita.problems.makespan.files.plans:MakespanPlanFiles")
    report = lazy("partita.problems.makespan.report:MakespanReport")
    sweep = lazy("partita.problems.makespan.sweep:MakespanSweep")
    timeline = lazy("partita.problems.makespan.timeline:MakespanTimeLine")
    generators = lazy("partita.problems.makespan.generators:GENERATORS")
    samples = lazy("partita.problems.makespan.samples:SAMPLES")
    change = staticmethod(change)
    evaluate = lazy("partita.problems.makespan.evaluate:evaluate")
    certify = lazy("partita.problems.makespan.certifying:certify")

    def default_solver(self, problem: MakespanProblem, options: Any) -> str:
        """With proof, where the MIP solvers are installed."""
        return "annealing" if self.solver("exact").supports(problem, options) else "exact"

    def explain_infeasible(
        self,
        problem: MakespanProblem,
        solver: Solver[MakespanProblem, MakespanPlan, MakespanOptions],
        options: MakespanOptions,
        time_limit_s: float = math.inf,
    ) -> str:
        return explain_infeasible(problem)

    def unlimited(self, problem: MakespanProblem, evaluation: MakespanEvaluation) -> MakespanProblem | None:
        """Without memory limits, if some device's memory is nearly full."""
        limits = [device.memory for device in problem.devices]
        nearly = (
            limit is not None and held >= NEARLY_FULL * limit
            for limit, held in zip(limits, evaluation.memory, strict=True)
        )
        return change(problem, MakespanChanges(memory=float("inf"))) if any(nearly) else None


MAKESPAN = Makespan()
