"""What plans are compared with: the rules of other systems, and of tokens served the plan of the largest flow."""

from __future__ import annotations

from partita.engines.search.monitor import Monitor
from partita.problems.kind import SearchOptions
from partita.problems.layer_placement.options import Outcome, Solver
from partita.problems.layer_placement.pace import at_depth
from partita.problems.layer_placement.problem import LayerPlacement, LayerPlacementProblem
from partita.problems.layer_placement.rules import RULES
from partita.problems.layer_placement.solvers import LayerPlacementRun


class MostFlow(Solver):
    """The published question's plan: of the largest flow, or as much of it as is published."""

    name = summary = ""

    def __init__(self, name: str, summary: str, *, published: bool) -> None:
        self.name, self.summary, self.published = name, summary, published

    def supports(self, problem: LayerPlacementProblem, options: SearchOptions) -> str | None:
        if problem.worth == "flow":
            return "the largest flow is what is looked for"
        return "nothing is published of this problem" if self.published and problem.published is None else None

    def solve(self, problem: LayerPlacementProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        most = {"most": problem.published.objective} if self.published and problem.published is not None else {}
        run = LayerPlacementRun(at_depth(problem, 1, **most), options, monitor)
        # What it finds on its way is worth something else here.
        run.quickly(lambda: monitor.stopping)
        if run.best.answer is None:
            return Outcome(None, reason="no plan with a flow was found")
        # Its layers may carry more than was looked for.
        return Outcome(LayerPlacement(machines=run.best.answer.machines))


DEFAULT_BASELINES: tuple[Solver, ...] = (
    *RULES,
    MostFlow("most flow", "the plan of the largest flow, which counts on full steps everywhere", published=False),
    MostFlow("published flow", "a plan of as much flow as is published of the problem", published=True),
)
