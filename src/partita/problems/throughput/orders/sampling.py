"""Random orders, each cut optimally."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.search.incumbent import Incumbent
from partita.problems.throughput.orders.optimal_cuts import Cutter
from partita.problems.throughput.orders.order_run import OrderSolver
from partita.problems.throughput.protocol import Options

#: Orders without a time limit, as many as the published comparison takes.
ORDERS = 10_000


class RandomOrders(OrderSolver):
    """Independent uniform priorities, a topological sort by them, and the best cut of every order.

    Source: Archer et al. (ICML 2024), §4.2 and App. C.1 (random).
    """

    name = "random-orders"
    summary = f"best cuts of {ORDERS} random topological orders, for identical devices; its bound is the simple one"
    argument = "a device holds the largest operator, and one device does at least the mean of the work"

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
