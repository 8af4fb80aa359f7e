"""The anytime run of the contiguous solvers: slice orders, then close the gap by targets until bound and plan meet."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

from partita.engines.kernels.throughput.search_state import FOUND, REFUTED
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.ground.errors import DisagreementError
from partita.ground.rounding import GAP, TOLERANCE
from partita.problems.outcome import searched
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Outcome, ThroughputOptions
from partita.problems.throughput.solvers.plain import ChargedItems, PlainSearcher, PlainView, plain_view
from partita.problems.throughput.solvers.race import Searcher, Target, check
from partita.problems.throughput.solvers.remaining_capacity import lower_bounds
from partita.problems.throughput.solvers.slicing_search import SlicingSearch
from partita.problems.throughput.solvers.variant import VariantSearcher, VariantView, variant_views
from partita.problems.throughput.solvers.view import SearchView, ViewedSplit
from partita.problems.throughput.variants import variants_of

#: Name under which the search over downsets reports bounds.
DOWNSETS = "exact"
#: A refuted target this close below a plan is as close as it gets: differences within it may be rounding.
DISTINCT = 2 * TOLERANCE
#: Slicing attempts after a target was met.
IMPROVE = 10
#: What is left of the way to targets that orders leave open, relative.
NARROW = 1e-5


def searcher_of(view: SearchView, top: float, charged: ChargedItems | None = None) -> Searcher:
    """The search of a view for targets up to ``top``; ``charged`` as in ``PlainSearcher``, for plain ones only."""
    if isinstance(view, PlainView):
        return PlainSearcher(view, top, charged)
    assert isinstance(view, VariantView)
    return VariantSearcher(view, top)


class GapCloser:
    """Raise the bound, which ``by`` is said to have proven, and lower the incumbent of a heuristic until they meet.

    ``nodes`` and ``rounds`` are the effort so far, ``charged`` is the charged work in use, and ``race`` the target just
    under the incumbent.
    """

    def __init__(self, search: SlicingSearch, threads: int, by: str) -> None:
        self.search, self.incumbent, self.by = search, search.incumbent, by
        self.stop, self.low = self.incumbent.stop, self.incumbent.bound
        self.pool = ThreadPoolExecutor(2) if threads > 1 else None
        # Both directions where memory does not depend on it.
        self.rows = [[view] if view.instance.positional else [view.turned(), view] for view in search.views]
        self.nodes, self.rounds = 0, 0
        self.step_up = 1.0 / 16
        self.stuck = False
        self.charged: ChargedItems | None = None
        self.race: Target | None = None
        self.effort = search.views[0].effort.first
        #: The lowest target met only by splits for which no order was found that is good enough; infinite for none.
        self.ceiling = math.inf
        value = self.incumbent.value
        self._searchers(max(view.most for view in search.views) if math.isinf(value) else value)

    def _searchers(self, top: float) -> None:
        self.top = top
        self.searchers = [[searcher_of(view, top, self.charged) for view in row] for row in self.rows]

    def _target(self, value: float) -> Target:
        return Target(self.searchers, value, self.search.low, self.pool, self.stop)

    def run(self) -> None:
        """Until proved, stopped or out of memory."""
        try:
            self.start()
            while self.advance():
                pass
        finally:
            self.end()

    def end(self) -> None:
        """Use one thread only from now on."""
        if self.pool is not None:
            self.pool.shutdown()
            self.pool = None
        if self.race is not None:
            self.race.pool = None

    def start(self) -> None:
        """Look for a split where there is none yet."""
        if self.incumbent.answer is not None:
            return
        target = self._target(self.top)
        status = target.run(1 << 60)
        self._count(target.nodes)
        if status == FOUND:
            self._accept(target)
        elif status == REFUTED:
            self.incumbent.refute(self.by)

    def learn(self, charged: ChargedItems | None = None) -> None:
        """Use a bound found elsewhere, and charged work that holds up to the incumbent's value."""
        self.low = max(self.low, self.incumbent.bound)
        if charged is not None and charged is not self.charged:
            self.charged, self.race = charged, None
            self._searchers(self.incumbent.value)

    @property
    def promising(self) -> bool:
        """Whether the race just under the incumbent will be answered soon, as far as one can tell."""
        race = self.race
        return race is None or race.value > self.incumbent.value * (1 - DISTINCT) or race.promising()

    def advance(self, *, race_only: bool = False) -> bool:
        """One more attempt, about ``effort`` nodes; with ``race_only`` just under the incumbent and nowhere else.

        False once nothing is left to do.
        """
        if self.incumbent.answer is None or self.stop[0] != 0 or self._proved():
            return False
        if self.ceiling < self.incumbent.value:
            # Nothing is to be found there: prove what can be proven below.
            self._below()
            return False
        target = self.incumbent.value * (1 - DISTINCT)
        if self.race is None or self.race.value > target:
            self.race = self._target(target)
        if self._answer(self.race, self.effort):
            return True
        if self.rounds == 0:
            self.effort = self.search.views[0].effort.round
        if self.race.promising() or race_only:
            self.rounds += 1
            return True
        self._climb(self.effort)
        if self.stuck and self.race.full:
            return False
        self.search.shake(self.effort)
        self.rounds += 1
        self.effort *= 2
        return True

    def _count(self, nodes: int) -> None:
        self.nodes += nodes
        self.incumbent.counters |= {"nodes": self.nodes, "rounds": self.rounds}

    def _proved(self) -> bool:
        value = self.incumbent.value
        if self.low >= value * (1 - 2 * DISTINCT):
            # What is refuted, not what is next to it.
            self.incumbent.prove(self.low, self.by)
            return True
        return False

    def _answer(self, target: Target, effort: int) -> bool:
        """Push a target and use its answer; whether it has one."""
        before = target.nodes
        status = target.run(effort)
        self._count(target.nodes - before)
        if target.near is not None:
            self._offer(target.near)
        if status == REFUTED:
            self.low = max(self.low, target.value)
            self.incumbent.prove(self.low, self.by)
        elif status == FOUND:
            self._accept(target)
            if self.incumbent.value > target.value * (1 + DISTINCT):
                self.ceiling = min(self.ceiling, target.value)
        return status in (REFUTED, FOUND)

    def _accept(self, target: Target) -> None:
        assert target.found is not None
        self._offer(target.found)
        self.search.improve(IMPROVE)
        if self.top > 1.5 * self.incumbent.value:
            self._searchers(self.incumbent.value)

    def _offer(self, found: ViewedSplit) -> None:
        """Offer what a search found, if it is better; a plan that fails, or costs more than its view says, raises."""
        objective = found.value.both
        if objective >= self.incumbent.value:
            return
        evaluation = evaluate(found.view.problem, found.view.plan(found.split))
        if not evaluation.feasible:
            raise DisagreementError(f"a split found by search fails: {evaluation.violations[0]}")
        check(found, evaluation.objective, objective)
        row = next(number for number, views in enumerate(self.rows) if found.view in views)
        view = self.search.views[row]
        self.search.offer(view, view.adopt(found))

    def _climb(self, effort: int) -> None:
        """Answer targets from below, in growing steps while they are easy; about ``effort`` nodes per direction."""
        spent, width = 0, len(self.rows[0])
        while spent < effort * width and self.stop[0] == 0 and not self._proved():
            high = self.incumbent.value
            target = self._target(min(self.low + (high - self.low) * self.step_up, high * (1 - DISTINCT)))
            answered = self._answer(target, effort)
            spent += target.nodes
            if not answered:
                self.stuck = target.full and target.value - self.low < NARROW * high
                self.step_up /= 2
                if self.stuck:
                    return
            elif target.found is not None:
                self.step_up = max(self.step_up / 2, 1e-3)
            elif target.nodes < effort * width / 4:
                self.step_up = min(0.6, self.step_up * 1.6)

    def _below(self) -> None:
        """Halve the way between what is proven and the lowest target that orders leave open."""
        effort = self.effort
        while self.stop[0] == 0 and not self._proved() and self.low < self.ceiling * (1 - NARROW):
            target = self._target((self.low + min(self.ceiling, self.incumbent.value)) / 2)
            if not self._answer(target, effort):
                if target.full:
                    return
                effort *= 2


def views_of(problem: ThroughputProblem) -> list[SearchView]:
    """The views of a problem in the direction that memory needs: one for each order of its groups."""
    return variant_views(problem) if variants_of(problem) else [plain_view(problem)]


class ContiguousRun:
    """State of one run; ``search`` works on the incumbent until it is told to stop."""

    def __init__(self, problem: ThroughputProblem, options: ThroughputOptions) -> None:
        self.problem, self.options = problem, options
        self.incumbent: Incumbent[ViewedSplit] = Incumbent(closeness=GAP)
        self.stop = self.incumbent.stop

    def search(self, monitor: Monitor, *, proof: bool = True) -> Outcome:
        """Prove, or slice only, in a worker thread, until done or until ``monitor.stopping``."""

        def work() -> None:
            search = self._open()
            if search is not None:
                (self.prove if proof else SlicingSearch.start)(search)

        return searched(self.incumbent, monitor, work, lambda found: found.view.plan(found.split))

    def prove(self, search: SlicingSearch) -> None:
        """Heuristic, then targets until the gap is closed."""
        if self._slice(search):
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
        """Slice orders, one where they are large; whether something is left to prove."""
        search.begin()
        if not search.large or self.incumbent.answer is None:
            search.vary()
        return self.incumbent.value > search.low.both * (1 + DISTINCT) and not self.stop[0]
