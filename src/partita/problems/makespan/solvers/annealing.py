"""Annealing on devices and order, judged by the compiled list scheduler; the bounds that cost nothing beside it."""

from __future__ import annotations

from partita.problems.makespan.bounds.simple import simple_bound
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.local_search import search
from partita.problems.makespan.plan import Schedule
from partita.problems.makespan.problem import MakespanProblem
from partita.problems.makespan.solvers.outcome import outcome_of
from partita.problems.makespan.solvers.protocol import Options, Outcome, Solver
from partita.run.background import run_in_background
from partita.run.incumbent import Incumbent
from partita.run.monitor import Monitor

#: Rounds until it ends by itself.
ROUNDS = 100


class Annealing(Solver):
    """Iterated annealing from list schedules; no proof beyond simple bounds."""

    name = "annealing"
    summary = "annealing on devices and order, schedules by a list scheduler; proves simple bounds only"

    def solve(self, problem: MakespanProblem, options: Options, monitor: Monitor) -> Outcome:
        best: Incumbent[Schedule] = Incumbent()

        def work() -> None:
            instance = build_instance(problem)
            value = simple_bound(instance)
            if value == float("inf"):
                best.refute("devices of classes")
                return
            best.prove(value, "simple bounds")
            search(instance, best, seed=options.seed, rounds=ROUNDS)

        run_in_background(best, monitor, work)
        return outcome_of(best)
