"""Random orders, each cut optimally."""

from __future__ import annotations

import numpy as np

from partita.kernels.throughput.arrays import Ints
from partita.problems.throughput.orders.block_problem import BlockProblem, blocks_refusal
from partita.problems.throughput.orders.optimal_cuts import Cutter
from partita.problems.throughput.orders.order_run import run_over_blocks
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome
from partita.run.incumbent import Incumbent
from partita.run.monitor import Monitor

__all__ = ["ORDERS", "RandomOrders"]

#: Orders without a time limit, as many as the published comparison takes.
ORDERS = 10_000


class RandomOrders:
    """Independent uniform priorities, a topological sort by them, and the best cut of every order.

    Source: Archer et al. (ICML 2024), §4.2 and App. C.1 (random).
    """

    name = "random-orders"
    summary = f"best cuts of {ORDERS} random topological orders, for identical devices; its bound is the simple one"

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        """Identical devices, acyclic splits, no variants but streaming."""
        return blocks_refusal(problem, options)

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        """Cut order after order until all are done, or until ``monitor.stopping``."""

        def search(blocks: BlockProblem, incumbent: Incumbent[Ints]) -> dict[str, float]:
            random, cutter = np.random.default_rng(options.seed), Cutter(blocks, incumbent.stop)
            while cutter.orders < ORDERS and not incumbent.done:
                found = cutter.best(cutter.order(random.random(blocks.items)), incumbent.value)
                if found is not None:
                    incumbent.offer(*found)
            return {"orders": cutter.orders}

        return run_over_blocks(problem, monitor, search)
