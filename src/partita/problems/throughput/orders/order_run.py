"""What the searches over orders and partitions share as solvers: the run in a worker thread, and its counters."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from partita.kernels.throughput.arrays import Ints
from partita.problems.throughput.orders.block_problem import Blocks, make_blocks
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.solvers.driver import run_in_background
from partita.problems.throughput.solvers.protocol import Outcome
from partita.run.monitor import Monitor

__all__ = ["OrderRun"]


class OrderRun:
    """State of one run: the worker offers partitions, the main thread reads.

    Parameters
    ----------
    problem
        One that ``blocks_refusal`` has nothing against.
    """

    def __init__(self, problem: ThroughputProblem) -> None:
        self.problem = problem
        self.stop = np.zeros(1, dtype=np.int64)
        self.blocks: Blocks | None = None
        self.value, self.bound, self.infeasible = math.inf, 0.0, False
        self.counters: dict[str, float] = {}
        self.label: Ints | None = None

    @property
    def started(self) -> bool:
        """Whether there is a partition."""
        return self.label is not None

    @property
    def done(self) -> bool:
        """Whether nothing better can exist, or the run stops."""
        return self.value <= self.bound * (1 + 1e-9) or bool(self.stop[0] != 0)

    def take(self, value: float, label: Ints) -> None:
        """Keep a partition if it is better."""
        if value < self.value:
            self.label = label
            self.value = value

    def outcome(self) -> Outcome:
        """The answer so far."""
        if self.infeasible:
            return Outcome(plan=None, infeasible=True)
        if self.label is None or self.blocks is None:
            return Outcome(plan=None, bound=self.bound or None)
        return Outcome(plan=self.blocks.plan(self.problem, self.label), bound=min(self.bound, self.value))

    def run(self, monitor: Monitor, search: Callable[[Blocks], dict[str, float]]) -> Outcome:
        """Contract the problem and run ``search`` on it, which returns its counters; evaluations per second are added.

        The bound is the simple one: the largest item and the average work.
        """

        def work() -> None:
            started = time.perf_counter()
            self.blocks = make_blocks(self.problem)
            self.infeasible = self.blocks.low == math.inf
            self.counters |= {"items": self.blocks.items, "nets": len(self.blocks.arrays.cost)}
            if self.infeasible:
                return
            self.bound = self.blocks.low
            counters = search(self.blocks)
            seconds = max(time.perf_counter() - started, 1e-9)
            self.counters |= counters | {f"{name}_per_s": count / seconds for name, count in counters.items()}

        return run_in_background(self, monitor, work)
