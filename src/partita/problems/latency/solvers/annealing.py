"""Annealing as a solver of its own: good plans for problems of any size, and no proof."""

from __future__ import annotations

import math

from partita.engines.search.background import run_in_background
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.latency.annealing import ROUNDS, SMALL_ROUNDS, PlacementSearch
from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.problem import LatencyProblem
from partita.problems.latency.protocol import Options, Outcome, Solver
from partita.problems.latency.view import View


class LatencyAnnealing(Solver):
    """See ``partita.problems.latency.annealing``."""

    name = "placement-annealing"
    summary = "annealing on placements from cuts of many orders; proves nothing"

    def solve(self, problem: LatencyProblem, options: Options, monitor: Monitor) -> Outcome:
        incumbent: Incumbent[LatencyPlan] = Incumbent()
        search = PlacementSearch(View(problem), incumbent, options.seed)
        count = SMALL_ROUNDS if search.small else ROUNDS if monitor.time_limit_s is None else math.inf

        def work() -> None:
            search.begin()
            search.run(rounds=count)

        run_in_background(incumbent, monitor, work)
        monitor.statistics.counters["trials"] = search.trials
        return Outcome(incumbent.answer)
