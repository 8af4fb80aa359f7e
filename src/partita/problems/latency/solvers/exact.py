"""The integer program as a solver of its own."""

from __future__ import annotations

from partita.engines.search.background import run_in_background
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.latency.annealing import PlacementSearch
from partita.problems.latency.exact import exact_refusal, prove_exactly
from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.problem import LatencyProblem
from partita.problems.latency.protocol import Options, Outcome, Solver
from partita.problems.latency.view import View


class LatencyProgram(Solver):
    """See ``partita.problems.latency.exact``; it starts from the best cut of some orders."""

    name = "latency-cpsat"
    summary = "integer program solved by CP-SAT, from the best cut of some orders; one piece per accelerator"
    argument = "CP-SAT bounded the program of all plans, whose numbers are rounded in favour of the plans"

    def supports(self, problem: LatencyProblem, options: Options) -> str | None:
        return exact_refusal(problem)

    def solve(self, problem: LatencyProblem, options: Options, monitor: Monitor) -> Outcome:
        incumbent: Incumbent[LatencyPlan] = Incumbent()
        view = View(problem)

        def work() -> None:
            search = PlacementSearch(view, incumbent, options.seed)
            search.begin()
            if not incumbent.done:
                prove_exactly(view, incumbent, search.slot, seed=options.seed, threads=options.threads, monitor=monitor)

        run_in_background(incumbent, monitor, work)
        return Outcome(incumbent.answer, incumbent.bound, proven_by=incumbent.proven_by)
