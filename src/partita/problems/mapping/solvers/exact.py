"""Branch and bound as a solver of its own."""

from __future__ import annotations

from partita.problems.mapping.bounds.neighbours import MARGIN, Neighbours, assignment_bound
from partita.problems.mapping.exact import settle
from partita.problems.mapping.instance import Instance
from partita.problems.mapping.orders import consecutive
from partita.problems.mapping.plan import Placement
from partita.problems.mapping.problem import MappingProblem
from partita.problems.mapping.protocol import Options, Outcome, Solver
from partita.run.background import run_in_background
from partita.run.incumbent import Incumbent
from partita.run.monitor import Monitor


class MappingExact(Solver):
    """See ``partita.problems.mapping.exact``; it starts from the consecutive mapping."""

    name = "branch-and-bound"
    summary = "depth-first assignment under targets, symmetric mappings once; exact, for some ten replicas"

    def solve(self, problem: MappingProblem, options: Options, monitor: Monitor) -> Outcome:
        best: Incumbent[Placement] = Incumbent()
        instance = Instance(problem)

        def work() -> None:
            if not instance.enough:
                best.refute("counting devices")
                return
            instance.offer(best, consecutive(instance), "construction")
            best.prove(assignment_bound(instance) * (1 - MARGIN), Neighbours.name)
            settle(instance, best)

        run_in_background(best, monitor, work)
        return Outcome(best.answer, None if best.infeasible else best.bound, infeasible=best.infeasible)
