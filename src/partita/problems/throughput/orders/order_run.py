"""What the searches over orders and partitions share as solvers; the simplest: random orders, each cut optimally."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import TOLERANCE
from partita.problems.throughput.contraction.blocks import blocks_refusal, make_blocks, plan_of
from partita.problems.throughput.orders.optimal_cuts import Cutter
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome
from partita.problems.throughput.search_run import run_search

#: Orders without a time limit, as many as the published comparison takes.
ORDERS = 10_000


class OrderSolver(ABC):
    """A search over blocks as a solver: it says its ``name`` and ``summary``, and how to ``search``."""

    name: ClassVar[str]
    summary: ClassVar[str]
    argument: ClassVar[str] = "a device holds the largest operator, and one device does at least the mean of the work"

    @abstractmethod
    def search(
        self, blocks: BlockProblem, incumbent: Incumbent[Ints], options: Options, *, timed: bool
    ) -> dict[str, float]:
        """Offer partitions (the block of every item) until done or ``incumbent.done``; the counters of the search.

        ``blocks`` are contracted, and ``timed`` tells whether there is a time limit.
        """

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        """Identical devices, acyclic splits, no variants but streaming."""
        return blocks_refusal(problem, options)

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        """Contract the problem and search until done or ``monitor.stopping``; counters per second are added.

        The bound is the simple one: the largest item and the average work.
        """
        incumbent: Incumbent[Ints] = Incumbent(closeness=TOLERANCE)
        made: list[BlockProblem] = []

        def work() -> None:
            started = time.perf_counter()
            blocks = make_blocks(problem)
            made.append(blocks)
            incumbent.counters |= {"items": blocks.items, "nets": blocks.nets}
            incumbent.prove(blocks.low, "simple")
            if math.isinf(blocks.low):
                return
            counters = self.search(blocks, incumbent, options, timed=monitor.time_limit_s is not None)
            seconds = max(time.perf_counter() - started, 1e-9)
            incumbent.counters |= counters | {f"{name}_per_s": count / seconds for name, count in counters.items()}

        return run_search(incumbent, monitor, work, lambda label: plan_of(problem, made[0], label))


class RandomOrders(OrderSolver):
    """Independent uniform priorities, a topological sort by them, and the best cut of every order.

    Source: Archer et al. (ICML 2024), §4.2 and App. C.1 (random).
    """

    name = "random-orders"
    summary = f"best cuts of {ORDERS} random topological orders, for identical devices; its bound is the simple one"

    def search(
        self, blocks: BlockProblem, incumbent: Incumbent[Ints], options: Options, *, timed: bool
    ) -> dict[str, float]:
        """Cut order after order until all are done."""
        random, cutter = np.random.default_rng(options.seed), Cutter(blocks, incumbent.stop)
        while cutter.orders < ORDERS and not incumbent.done:
            found = cutter.best(cutter.order(random.random(blocks.items)), incumbent.value)
            if found is not None:
                incumbent.offer(*found)
        return {"orders": cutter.orders}
