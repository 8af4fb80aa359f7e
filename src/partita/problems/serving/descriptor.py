"""The serving problem, as the rest of the package sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partita.problems.attributes import lazy
from partita.problems.kind import Kind, SearchOptions
from partita.problems.serving.options import ServingChanges, change
from partita.problems.serving.problem import ServingPlan, ServingProblem

if TYPE_CHECKING:
    from partita.problems.kind import Evaluate
    from partita.problems.serving.evaluate import ServingEvaluation


class Serving(Kind[ServingProblem, ServingPlan, "ServingEvaluation"]):
    """A model that serves requests: how a unit is laid out, and how many there are."""

    summary = "serve a stream of requests with continuous batching: the least time per request of the whole deployment"
    problem = ServingProblem
    plan = ServingPlan
    changes = ServingChanges
    model = lazy("partita.problems.serving.from_model:ServingFromModel")
    solvers = lazy("partita.problems.serving.solvers:DEFAULT_SOLVERS")
    usual_solver = "every-deployment"
    bounds = lazy("partita.problems.serving.bounds:DEFAULT_BOUNDS")
    baselines = lazy("partita.problems.serving.rules:RULES")
    files = lazy("partita.problems.serving.files:ServingPlanFiles")
    report = lazy("partita.problems.serving.report:ServingReport")
    sweep = lazy("partita.problems.serving.sweep:ServingSweep")
    timeline = lazy("partita.problems.serving.timeline:ServingTimeLine")
    samples = lazy("partita.problems.serving.samples:SAMPLES")
    why_none = lazy("partita.problems.serving.solvers:why_none")
    deployment = lazy("partita.problems.serving.deployment:deployment")
    change = staticmethod(change)
    evaluate: Evaluate[ServingProblem, ServingPlan, ServingEvaluation] = lazy(
        "partita.problems.serving.evaluate:evaluate"
    )

    def default_solver(self, problem: ServingProblem, options: SearchOptions) -> str:
        return self.usual_solver if problem.goal == "time" else "fleets"


SERVING = Serving()
