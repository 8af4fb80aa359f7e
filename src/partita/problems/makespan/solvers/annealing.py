"""Annealing on devices and order, judged by the compiled list scheduler; the bounds that cost nothing beside it."""

from __future__ import annotations

from partita.engines.search.background import run_in_background
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.bounds.simple import simple_bound
from partita.problems.makespan.improving import first_schedules, improve
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.plan import Schedule
from partita.problems.makespan.problem import MakespanProblem
from partita.problems.makespan.protocol import Options, Outcome, Solver, outcome_of

#: Rounds of annealing everything, on problems that are not too large for that.
ROUNDS = 40


class Annealing(Solver):
    """Iterated annealing from list schedules; proof of small problems only, beyond simple bounds."""

    name = "annealing"
    summary = "annealing on devices and order, schedules by a list scheduler; proof for small problems only"
    argument = "every choice of devices and order of a small problem was tried; else the longest chain, or work divided"

    def solve(self, problem: MakespanProblem, options: Options, monitor: Monitor) -> Outcome:
        best: Incumbent[Schedule] = Incumbent()

        def work() -> None:
            instance = build_instance(problem)
            value = simple_bound(instance)
            if value == float("inf"):
                best.refute("devices of classes")
                return
            best.prove(value, "simple bounds")
            first_schedules(instance, best, seed=options.seed, rounds=ROUNDS, exhaustive=True)
            improve(instance, best, seed=options.seed, threads=options.threads)

        run_in_background(best, monitor, work)
        return outcome_of(best)
