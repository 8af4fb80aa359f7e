"""Fleets: which units, how many, who takes which requests, and at which rate."""

from __future__ import annotations

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.kind import SearchOptions
from partita.problems.outcome import searched
from partita.problems.serving.cheapest import CheapestFleet
from partita.problems.serving.most_requests import MostRequests
from partita.problems.serving.options import Outcome, Solver
from partita.problems.serving.problem import ServingPlan, ServingProblem


class Fleets(Solver):
    """See the module."""

    name = "fleets"
    summary = "fleets of several forms with shares of requests, simulated in the order of what their units can take"
    argument = "no fleet does more than its units in their best mixes of steps; or every fleet was simulated"

    def supports(self, problem: ServingProblem, options: SearchOptions) -> str | None:
        return (
            "it looks for a rate or for the cheapest devices; use every-deployment" if problem.goal == "time" else None
        )

    def solve(self, problem: ServingProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        best: Incumbent[ServingPlan] = Incumbent()
        search = CheapestFleet if problem.goal == "cost" else MostRequests
        return searched(best, monitor, lambda: search(problem, monitor, best, self.name, options).run())
