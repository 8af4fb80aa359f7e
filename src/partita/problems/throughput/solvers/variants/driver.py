"""The anytime driver of the contiguous search for variants: a best plan and a valid bound at every moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from partita.problems.throughput.plan import Plan
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.solvers.protocol import Options, Outcome
from partita.problems.throughput.solvers.variants.decision import FULL, VariantSearcher
from partita.problems.throughput.solvers.variants.incumbent import VariantIncumbent
from partita.problems.throughput.solvers.variants.objective_decision import Target
from partita.problems.throughput.solvers.variants.prepared import Split, VariantPrepared, prepare_variant
from partita.problems.throughput.solvers.variants.remaining_capacity import LowerBounds, lower_bounds
from partita.problems.throughput.working_memory import PeakTable

__all__ = ["VariantDriver"]

#: A refuted target this close below a plan proves the plan: differences within it are rounding.
CLOSE = 2e-9
#: Nodes per direction of the first attempt just under the incumbent, and of the first round of targets from below.
FIRST, ROUND = 200_000, 1_000_000
#: Most bytes for the states of one decision.
MAX_BYTES = 8e8


class VariantDriver:
    """State of one run; the methods ``prove`` and ``slice`` run in a worker thread, the main thread reads.

    Parameters
    ----------
    problem, options
        As in the solver protocol.
    """

    def __init__(self, problem: ThroughputProblem, options: Options) -> None:
        self.problem, self.options = problem, options
        self.stop = np.zeros(1, dtype=np.int64)
        self.value = float("inf")
        self.split: tuple[VariantPrepared, Split] | None = None
        self.bound = 0.0
        self.infeasible = False
        self.counters: dict[str, float] = {}

    # What the main thread reads.

    @property
    def started(self) -> bool:
        """Whether there is a split."""
        return self.split is not None

    def outcome(self) -> Outcome:
        """The answer so far."""
        plan: Plan | None = None
        if self.split is not None:
            plan = self.split[0].plan(self.split[1])
        return Outcome(plan=plan, bound=None if self.infeasible else self.bound, infeasible=self.infeasible)

    # What the worker does.

    def take(self, value: float, view: VariantPrepared, split: Split) -> None:
        """Keep a better split."""
        self.split, self.value = (view, split), value

    def raise_bound(self, bound: float) -> None:
        """Keep a better bound, never above the plan."""
        if bound > self.bound:
            self.bound = min(bound, self.value)

    def slice(self) -> None:
        """Heuristic only."""
        self._start()

    def prove(self) -> None:
        """Heuristic, then targets until the gap is closed."""
        started = self._start()
        if started is None or self.stop[0] != 0:
            return
        incumbent, low = started
        with ThreadPoolExecutor(2) as threads:
            pool = threads if self.options.threads > 1 else None
            _Proof(self, incumbent, low, pool).run()

    def _start(self) -> tuple[VariantIncumbent, LowerBounds] | None:
        """Contract, bound and slice; None if the answer is already known."""
        peaks = PeakTable(self.problem) if self.problem.working_memory == "peak" else None
        views = [prepare_variant(self.problem, first=first, peaks=peaks) for first in _first_groups(self.problem)]
        low = lower_bounds(views[0])
        if low.both == float("inf"):
            self.infeasible = True
            return None
        self.raise_bound(low.both)
        self.counters |= {"items": views[0].items, "nets": views[0].instance.nets}
        incumbent = VariantIncumbent(views, low, self.options.seed, self.stop, self.take)
        incumbent.start()
        if incumbent.best is not None and self.value <= low.both * (1 + CLOSE):
            self.raise_bound(self.value)
            return None
        return incumbent, low


def _first_groups(problem: ThroughputProblem) -> list[int]:
    """Groups that a pipeline may start with; one if they are alike, or only one has devices."""
    if len(problem.groups) < 2:
        return [0]
    one, other = problem.groups
    if not sum(one.counts) or not sum(other.counts):
        return [0]
    fields = ("counts", "transfer_time_per_unit", "transfer_latency")
    return [0] if all(getattr(one, field) == getattr(other, field) for field in fields) else [0, 1]


class _Proof:
    """Raise the bound and lower the incumbent until they meet.

    First a target just under the incumbent; while that is undecided, targets from below in growing steps.
    """

    def __init__(
        self, driver: VariantDriver, incumbent: VariantIncumbent, low: LowerBounds, pool: ThreadPoolExecutor | None
    ) -> None:
        self.driver, self.incumbent, self.low_bounds, self.pool = driver, incumbent, low, pool
        self.low = driver.bound
        self.rows: list[list[VariantPrepared]] = []
        for place, view in enumerate(incumbent.views):
            row = [view]
            if not view.instance.positional:
                first = _first_groups(driver.problem)[place]
                other = not view.backwards
                row.append(prepare_variant(driver.problem, backwards=other, first=first, peaks=view.peaks))
            self.rows.append(row)
        self.searchers: list[list[VariantSearcher]] = []
        self.nodes = self.rounds = 0
        self.step = 1.0 / 16
        #: The lowest target met only by splits for which no order was found that is good enough; infinite for none.
        self.ceiling = float("inf")

    def _scale(self, top: float) -> None:
        self.searchers = [[VariantSearcher(view, top, MAX_BYTES) for view in row] for row in self.rows]

    def _target(self, value: float) -> Target:
        return Target(self.searchers, value, self.low_bounds, self.pool, self.driver.stop)

    def run(self) -> None:
        """Until proved, stopped or out of memory."""
        from partita.kernels.throughput.search_state import FOUND, REFUTED

        incumbent, driver = self.incumbent, self.driver
        if incumbent.best is None:
            self._scale(incumbent.most)
            target = self._target(incumbent.most)
            status = target.run(1 << 60)
            self._count(target, 0)
            if status != FOUND:
                driver.infeasible = status == REFUTED
                return
            self._accept(target)
            incumbent.improve(20)
        self._scale(incumbent.value)
        self._close()

    def _count(self, target: Target, before: int) -> None:
        self.nodes += target.nodes - before
        self.driver.counters |= {"nodes": self.nodes, "rounds": self.rounds}

    def _proved(self) -> bool:
        if self.low >= self.incumbent.value * (1 - 2 * CLOSE):
            self.driver.raise_bound(self.incumbent.value)
            return True
        return False

    def _close(self) -> None:
        effort, stop = FIRST, self.driver.stop
        target: Target | None = None
        while stop[0] == 0 and not self._proved():
            if self.ceiling < self.incumbent.value:
                # Nothing is to be found there: prove what can be proven below.
                self._below(effort)
                return
            just_under = self.incumbent.value * (1 - CLOSE)
            if target is None or target.value > just_under:
                target = self._target(just_under)
            status = self._answer(target, effort)
            if status is None:
                return
            if status:
                continue
            effort = ROUND if self.rounds == 0 else effort
            self.rounds += 1
            if not self._climb(effort):
                return
            self.incumbent.improve(10)
            effort *= 2

    def _answer(self, target: Target, effort: int) -> bool | None:
        """Push a target and use its answer: whether it has one, None if it ran out of memory."""
        from partita.kernels.throughput.search_state import FOUND, REFUTED

        before, driver = target.nodes, self.driver
        status = target.run(effort)
        self._count(target, before)
        if target.near is not None:
            self.incumbent.offer(*target.near)
        if status == REFUTED:
            self.low = max(self.low, target.value)
            if not self._proved():
                driver.raise_bound(self.low)
            return True
        if status == FOUND:
            self._accept(target)
            if driver.problem.working_memory == "peak" and self.incumbent.value > target.value * (1 + CLOSE):
                self.ceiling = min(self.ceiling, target.value)
            return True
        return None if status == FULL else False

    def _below(self, effort: int) -> None:
        """Halve the way between what is proven and the lowest target that orders leave open."""
        while self.driver.stop[0] == 0 and not self._proved() and self.low < self.ceiling * (1 - 1e-5):
            high = min(self.ceiling, self.incumbent.value)
            target = self._target((self.low + high) / 2)
            if self._answer(target, effort) is None:
                return
            if target.found is None and self.low < target.value:
                effort *= 2

    def _accept(self, target: Target) -> None:
        assert target.found is not None
        self.incumbent.offer(*target.found)
        self.incumbent.improve(6)

    def _climb(self, effort: int) -> bool:
        """Answer targets from below, in growing steps while they are easy; False if memory does not suffice."""
        spent = 0
        while spent < effort and self.driver.stop[0] == 0 and not self._proved():
            high = self.incumbent.value
            target = self._target(min(self.low + (high - self.low) * self.step, high * (1 - CLOSE)))
            status = self._answer(target, effort)
            spent += target.nodes
            if status is None and self.step < 1e-4:
                return False
            if not status:
                self.step /= 2
            elif target.nodes < effort / 4:
                self.step = min(0.6, self.step * 1.6)
        return True
