"""Branch and bound as a solver of its own."""

from __future__ import annotations

from partita.engines.search.background import run_in_background
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.mapping.bounds.neighbours import Neighbours, assignment_bound, lowered
from partita.problems.mapping.exact import settle
from partita.problems.mapping.instance import Instance
from partita.problems.mapping.orders import consecutive
from partita.problems.mapping.plan import Placement
from partita.problems.mapping.problem import MappingProblem
from partita.problems.mapping.protocol import Options, Outcome, Solver


class MappingExact(Solver):
    """See ``partita.problems.mapping.exact``; it starts from the consecutive mapping."""

    name = "branch-and-bound"
    summary = "depth-first assignment under targets, symmetric mappings once; exact, for some ten replicas"
    argument = "every assignment under a target was tried, symmetric ones once"

    def solve(self, problem: MappingProblem, options: Options, monitor: Monitor) -> Outcome:
        best: Incumbent[Placement] = Incumbent()
        instance = Instance(problem)

        def work() -> None:
            if not instance.enough:
                best.refute("counting devices")
                return
            instance.offer(best, consecutive(instance), "construction")
            best.prove(lowered(instance, assignment_bound(instance)), Neighbours.name)
            settle(instance, best)

        run_in_background(best, monitor, work)
        bound = None if best.infeasible else best.bound
        return Outcome(best.answer, bound, infeasible=best.infeasible, proven_by=best.proven_by)
