"""The anytime driver of the contiguous solvers: a best plan and a valid bound at every moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

import numpy as np

from partita.kernels.throughput.arrays import Longs
from partita.problems.throughput.plan import Plan
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.solvers.incumbent import Incumbent
from partita.problems.throughput.solvers.prepared import Prepared, Split, prepare
from partita.problems.throughput.solvers.protocol import Options, Outcome
from partita.problems.throughput.solvers.remaining_capacity import fractional_bound
from partita.problems.throughput.solvers.two_way_race import CLOSE, Proof
from partita.run.monitor import Monitor

__all__ = ["Driver", "Running", "run_in_background"]


class Running(Protocol):
    """What the main thread reads while a worker searches; a raised ``stop[0]`` ends the search soon."""

    stop: Longs
    value: float
    bound: float
    infeasible: bool
    counters: dict[str, float]

    @property
    def started(self) -> bool:
        """Whether there is a split."""
        ...

    def outcome(self) -> Outcome:
        """The answer so far."""
        ...


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

    @property
    def started(self) -> bool:
        """Whether there is a split."""
        return self.split is not None

    def outcome(self) -> Outcome:
        """The answer so far."""
        plan: Plan | None = None
        if self.split is not None and self.prepared is not None:
            plan = self.prepared.plan(self.split)
        return Outcome(plan=plan, bound=None if self.infeasible else self.bound, infeasible=self.infeasible)

    # What the worker does.

    def take(self, value: float, split: Split) -> None:
        self.split, self.value = split, value

    def raise_bound(self, bound: float) -> None:
        if bound > self.bound:
            self.bound = min(bound, self.value)

    def _open(self) -> Incumbent | None:
        """Contract and bound; None if there is no plan."""
        self.prepared = prepare(self.problem)
        low = fractional_bound(self.prepared.arrays)
        if low == float("inf"):
            self.infeasible = True
            return None
        self.raise_bound(low)
        self.counters |= {"items": self.prepared.items, "nets": self.prepared.instance.nets}
        return Incumbent(self.prepared, low, self.options.seed, self.stop, self.take)

    def _slice(self, incumbent: Incumbent) -> bool:
        """Slice orders; whether something is left to prove."""
        incumbent.start()
        if incumbent.split is not None and self.value <= incumbent.low * (1 + CLOSE):
            self.raise_bound(self.value)
            return False
        return bool(self.stop[0] == 0)

    def slice(self) -> None:
        """Heuristic only."""
        incumbent = self._open()
        if incumbent is not None:
            self._slice(incumbent)

    def prove(self) -> None:
        """Heuristic, then decisions until the gap is closed."""
        incumbent = self._open()
        if incumbent is None or not self._slice(incumbent) or self.prepared is None:
            return
        proof = Proof(self.prepared, incumbent, self.options.threads, self.bound, self.raise_bound)
        self.infeasible = proof.run()
        self.counters |= {"nodes": proof.nodes, "rounds": proof.rounds}


def run_in_background(driver: Running, monitor: Monitor, work: Callable[[], None]) -> Outcome:
    """Run ``work`` in a thread; watch the clock and report from this one, so that Ctrl-C and progress stay alive."""
    from partita.kernels.compiled import is_compiled
    from partita.kernels.throughput.search import search

    failure: list[BaseException] = []
    done = threading.Event()

    def target() -> None:
        try:
            work()
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    if not is_compiled(search):
        monitor.report(note="compiling the search kernels, once on this machine: half a minute or so")
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


def _report(driver: Running, monitor: Monitor) -> None:
    monitor.report(
        objective=driver.value if driver.started else None,
        bound=None if driver.infeasible or driver.bound <= 0 else driver.bound,
    )
