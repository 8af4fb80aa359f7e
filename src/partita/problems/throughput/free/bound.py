"""The covering bound by itself, and which way its charges are found."""

from __future__ import annotations

from collections.abc import Callable

from partita.engines.mip.solve import missing
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.problems.throughput.free.covering import FreeCovering
from partita.problems.throughput.free.narrow_covering import NarrowCovering, narrow_sets
from partita.problems.throughput.free.search import FreeIncumbent, FreeRounds, refusal, start
from partita.problems.throughput.problem import ThroughputProblem


def covering(best: FreeIncumbent, stop: Callable[[], bool], seed: int = 0) -> FreeCovering | NarrowCovering:
    """Charges with exact searches for sets where few nets cross an order of the items, with programs elsewhere."""
    sets = narrow_sets(best, stop)
    return FreeCovering(best, stop, seed) if sets is None else NarrowCovering(best, sets, stop)


class FreeCoveringBound:
    """Charges found by column generation, then one exact program for each; see the module."""

    name = "covering-free"
    summary = "prices on operators that no device can collect enough of, by column generation (needs HiGHS)"
    argument = (
        "prices on operators add up to more than all devices can collect within the target, by programs over "
        "single devices"
    )
    scope = "free"

    def supports(self, problem: ThroughputProblem) -> str | None:
        """What free splits are searched for, where HiGHS is installed."""
        return missing("highs") or refusal(problem)

    def bound(self, problem: ThroughputProblem, monitor: Monitor) -> Bound:
        """The bound; a short annealing gives it something to aim at."""
        best = start(problem)

        def stop() -> bool:
            return monitor.stopping or best.closed

        if not best.infeasible:
            FreeRounds(best, 0).run(stop, rounds=6)
        if best.answer is not None:
            covering(best, stop).run()
        return Bound(best.bound, self.name, self.scope, monitor.elapsed_s)
