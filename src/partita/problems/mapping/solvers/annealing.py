"""Annealing as a solver of its own."""

from __future__ import annotations

from partita.engines.search.background import run_in_background
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.mapping.instance import Instance
from partita.problems.mapping.local_search import PATIENCE, SHORT, MappingSearch
from partita.problems.mapping.plan import Placement
from partita.problems.mapping.problem import MappingProblem
from partita.problems.mapping.protocol import Options, Outcome, Solver


class MappingAnnealing(Solver):
    """See ``partita.problems.mapping.local_search``."""

    name = "swap-annealing"
    summary = "annealing by swaps of devices, from constructions that see traffic and bandwidth; proves nothing"
    argument = "there are fewer devices than replicas"

    def solve(self, problem: MappingProblem, options: Options, monitor: Monitor) -> Outcome:
        best: Incumbent[Placement] = Incumbent()
        instance = Instance(problem)
        search = MappingSearch(instance, best, options.seed, options.threads)

        def work() -> None:
            if not instance.enough:
                best.refute("counting devices")
                return
            search.begin()
            search.run(patience=min(PATIENCE, SHORT * instance.count))

        run_in_background(best, monitor, work)
        monitor.statistics.counters["moves"] = search.trials
        return Outcome(best.answer, infeasible=best.infeasible, proven_by=best.proven_by)
