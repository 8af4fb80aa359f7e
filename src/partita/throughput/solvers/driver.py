"""The anytime driver of the contiguous solvers: a best plan and a valid bound at every moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from partita.result import Monitor
from partita.throughput.plan import Plan
from partita.throughput.problem import ThroughputProblem
from partita.throughput.solvers.decision import FULL, Decision, Searcher
from partita.throughput.solvers.incumbent import Incumbent
from partita.throughput.solvers.prepared import Prepared, Split, prepare
from partita.throughput.solvers.protocol import Options, Outcome
from partita.throughput.solvers.weights import fractional_bound

__all__ = ["Driver", "run_in_background"]

#: A refuted target this close below a plan proves the plan: differences within it are rounding.
CLOSE = 2e-9
#: Nodes of the first attempt just under the incumbent, and of the first round after it.
FIRST, ROUND = 3_000_000, 8_000_000


class Driver:
    """State of one run; the methods ``prove`` and ``slice`` run in a worker thread, the main thread reads.

    Parameters
    ----------
    problem, options
        As in the solver protocol.
    """

    def __init__(self, problem: ThroughputProblem, options: Options) -> None:
        self.problem, self.options = problem, options
        self.stop = np.zeros(1, dtype=np.int64)
        self.prepared: Prepared | None = None
        self.value = float("inf")
        self.split: Split | None = None
        self.bound = 0.0
        self.infeasible = False
        self.counters: dict[str, float] = {}

    # What the main thread reads.

    def outcome(self) -> Outcome:
        """The answer so far."""
        plan: Plan | None = None
        if self.split is not None and self.prepared is not None:
            plan = self.prepared.plan(self.split)
        return Outcome(plan=plan, bound=None if self.infeasible else self.bound, infeasible=self.infeasible)

    # What the worker does.

    def _take(self, value: float, split: Split) -> None:
        self.split, self.value = split, value

    def _raise(self, bound: float) -> None:
        if bound > self.bound:
            self.bound = min(bound, self.value)

    def _start(self) -> Incumbent | None:
        """Contract, bound and slice; None if the answer is already known."""
        self.prepared = prepare(self.problem)
        low = fractional_bound(self.prepared.arrays)
        if low == float("inf"):
            self.infeasible = True
            return None
        self._raise(low)
        self.counters |= {"items": self.prepared.items, "nets": self.prepared.instance.nets}
        incumbent = Incumbent(self.prepared, low, self.options.seed, self.stop, self._take)
        incumbent.start()
        if incumbent.split is not None and self.value <= low * (1 + CLOSE):
            self._raise(self.value)
            return None
        return incumbent

    def slice(self) -> None:
        """Heuristic only."""
        self._start()

    def prove(self) -> None:
        """Heuristic, then decisions until the gap is closed."""
        incumbent = self._start()
        if incumbent is None or self.stop[0] != 0 or self.prepared is None:
            return
        Proof(self, self.prepared, incumbent).run()


class Proof:
    """Decisions just under the incumbent and from below, in rounds of equal effort (so that seeds repeat)."""

    def __init__(self, driver: Driver, prepared: Prepared, incumbent: Incumbent) -> None:
        self.driver, self.prepared, self.incumbent = driver, prepared, incumbent
        self.stop = driver.stop
        top = incumbent.slicer.most if incumbent.split is None else incumbent.value
        self.searcher = Searcher(prepared, top)
        self.step = 1.0 / 16
        self.climbing: Decision | None = None
        self.nodes = 0
        self.stuck = False

    def run(self) -> None:
        """Until proved, stopped or out of memory."""
        from partita.kernels.search import REFUTED

        if self.incumbent.split is None and not self._first_plan():
            return
        top = self._under()
        status = self._push(top, FIRST)
        effort = ROUND
        while not self._settle(top, status):
            if self.stop[0] != 0:
                return
            if top is None or self.driver.value < top.target * (1 + CLOSE):
                top = self._under()
                status = self._push(top, FIRST)
                continue
            if status == FULL and self.stuck:
                return
            limit = top.nodes + effort
            if self.driver.options.threads > 1 and status != FULL:
                with ThreadPoolExecutor(1) as pool:
                    # The climb may be cut short only by a proof, which makes its result irrelevant.
                    halt = np.zeros(1, dtype=np.int64)
                    other = pool.submit(self._climb, effort, halt)
                    status = self._push(top, limit)
                    if status == REFUTED or self.stop[0] != 0:
                        halt[0] = 1
                    other.result()
            else:
                if status != FULL:
                    status = self._push(top, limit)
                if status != REFUTED:
                    self._climb(effort, self.stop)
            effort = min(effort * 2, 1 << 40)
        self.driver.counters["nodes"] = self.nodes

    def _under(self) -> Decision:
        return Decision(self.searcher, self.driver.value * (1 - CLOSE))

    def _push(self, decision: Decision, limit: int) -> int:
        before = decision.nodes
        status = decision.run(limit, self.stop)
        self.nodes += decision.nodes - before
        return status

    def _first_plan(self) -> bool:
        from partita.kernels.search import FOUND, REFUTED

        decision = Decision(self.searcher, self.searcher.top)
        status = self._push(decision, 1 << 60)
        if status == REFUTED:
            self.driver.infeasible = True
        if status != FOUND:
            return False
        self._accept(decision)
        return True

    def _accept(self, decision: Decision) -> None:
        split = decision.split()
        self.incumbent.offer(float(self.prepared.loads(split).max()), split)
        self.incumbent.improve(10)
        if self.searcher.top > 2 * self.driver.value:
            self.searcher = Searcher(self.prepared, self.driver.value)

    def _settle(self, top: Decision, status: int) -> bool:
        """Use the answer of the decision just under the incumbent; whether all is proved."""
        from partita.kernels.search import FOUND, REFUTED

        if status == REFUTED:
            self.driver._raise(top.target if top.target < self.driver.value * (1 - 2 * CLOSE) else self.driver.value)
        elif status == FOUND:
            self._accept(top)
        if self.driver.bound >= self.driver.value * (1 - 2 * CLOSE):
            self.driver._raise(self.driver.value)
            return True
        return False

    def _climb(self, effort: int, halt: np.ndarray) -> None:  # type: ignore[type-arg]
        """Refute targets from below with at most ``effort`` nodes."""
        from partita.kernels.search import FOUND, REFUTED

        spent = 0
        while spent < effort and halt[0] == 0 and self.stop[0] == 0:
            low, high = self.driver.bound, self.driver.value
            if low >= high * (1 - CLOSE):
                return
            if self.climbing is None or self.climbing.target <= low or self.climbing.target >= high:
                self.climbing = Decision(self.searcher, low + (high - low) * self.step)
            decision = self.climbing
            before = decision.nodes
            status = decision.run(before + effort - spent, halt)
            used = decision.nodes - before
            spent += used
            self.nodes += used
            if status == REFUTED:
                self.driver._raise(decision.target)
                self.climbing = None
                if decision.nodes < effort / 3:
                    self.step = min(0.5, self.step * 2)
            elif status == FOUND:
                self._accept(decision)
                self.climbing = None
                self.step = min(self.step, 0.5) / 2
            elif halt[0] == 0:
                # Too hard for this round: ask for less, unless that is already very little.
                if (decision.target - low) > 2e-4 * high or status == FULL:
                    self.stuck = status == FULL and (decision.target - low) < 1e-5 * high
                    self.climbing = None
                    self.step /= 2
                if self.stuck:
                    return


def run_in_background(driver: Driver, monitor: Monitor, work: Callable[[Driver], None]) -> Outcome:
    """Run ``work`` in a thread; watch the clock and report from this one, so that Ctrl-C and progress stay alive."""
    failure: list[BaseException] = []
    done = threading.Event()

    def target() -> None:
        try:
            work(driver)
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=target, name="partita-search", daemon=True)
    thread.start()
    try:
        while not done.wait(0.02):
            _report(driver, monitor)
            if monitor.stopping:
                driver.stop[0] = 1
    except KeyboardInterrupt:
        monitor.interrupt()
    driver.stop[0] = 1
    thread.join()
    if failure:
        raise failure[0]
    _report(driver, monitor)
    monitor.statistics.counters.update(driver.counters)
    return driver.outcome()


def _report(driver: Driver, monitor: Monitor) -> None:
    monitor.report(
        objective=driver.value if driver.split is not None else None,
        bound=None if driver.infeasible or driver.bound <= 0 else driver.bound,
    )
