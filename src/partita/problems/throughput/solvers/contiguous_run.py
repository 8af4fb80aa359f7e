"""The anytime run of the contiguous solvers: a best split and a valid bound at every moment."""

from __future__ import annotations

import math

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import GAP
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome
from partita.problems.throughput.search_run import run_search
from partita.problems.throughput.solvers.gap_closing import DISTINCT, GapCloser
from partita.problems.throughput.solvers.plain import plain_view
from partita.problems.throughput.solvers.remaining_capacity import lower_bounds
from partita.problems.throughput.solvers.slicing_search import SlicingSearch
from partita.problems.throughput.solvers.variant import variant_views
from partita.problems.throughput.solvers.view import SearchView, ViewedSplit
from partita.problems.throughput.variants import variants_of

#: Name under which the search over downsets reports bounds.
DOWNSETS = "exact"


def views_of(problem: ThroughputProblem) -> list[SearchView]:
    """The views of a problem in the direction that memory needs: one for each order of its groups."""
    return variant_views(problem) if variants_of(problem) else [plain_view(problem)]


class ContiguousRun:
    """State of one run; ``prove`` and ``slice`` work on the incumbent until it is told to stop."""

    def __init__(self, problem: ThroughputProblem, options: Options) -> None:
        self.problem, self.options = problem, options
        self.incumbent: Incumbent[ViewedSplit] = Incumbent(closeness=GAP)
        self.stop = self.incumbent.stop

    def search(self, monitor: Monitor, *, proof: bool = True) -> Outcome:
        """Prove, or slice only, in a worker thread, until done or until ``monitor.stopping``."""
        work = self.prove if proof else self.slice
        return run_search(self.incumbent, monitor, work, lambda found: found.view.plan(found.split))

    def slice(self) -> None:
        """Heuristic only."""
        search = self._open()
        if search is not None:
            self._slice(search)

    def prove(self) -> None:
        """Heuristic, then targets until the gap is closed."""
        search = self._open()
        if search is not None and self._slice(search):
            GapCloser(search, self.options.threads, DOWNSETS).run()

    def _open(self) -> SlicingSearch | None:
        """Contract and bound; None if there is no plan."""
        views = views_of(self.problem)
        low = lower_bounds(views[0])
        self.incumbent.prove(low.both, "simple")
        if math.isinf(low.both):
            return None
        self.incumbent.counters |= {"items": views[0].items, "nets": views[0].instance.nets}
        return SlicingSearch(views, low, self.options.seed, self.incumbent)

    def _slice(self, search: SlicingSearch) -> bool:
        """Slice orders; whether something is left to prove."""
        search.start()
        if self.incumbent.value <= search.low.both * (1 + DISTINCT):
            return False
        return bool(self.stop[0] == 0)
