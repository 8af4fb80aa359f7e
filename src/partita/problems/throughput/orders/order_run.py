"""What the searches over orders share: cuts of an order into blocks, optimal for each, and the frame of their solvers.

Source: Archer et al. (ICML 2024), §4, Algorithm 1, with O(1) costs of segments (``kernels.throughput.orders``).
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.linear_orders import order_by
from partita.engines.kernels.throughput.orders import costs_of, cut_order
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import TOLERANCE, clearly_below
from partita.problems.outcome import searched
from partita.problems.throughput.contraction.blocks import blocks_refusal, make_blocks, plan_of
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Outcome, ThroughputOptions

#: Orders without a time limit, as many as the published comparison takes.
ORDERS = 10_000
#: Up to this many items the table for all numbers of blocks is faster than decisions.
TABLE_ITEMS = 1500


class Cutter:
    """Cuts orders of one problem, and keeps count; a raised ``stop`` ends a cut without an answer."""

    def __init__(self, blocks: BlockProblem, stop: Longs) -> None:
        self.blocks, self.stop = blocks, stop
        self.orders = 0
        n = blocks.items
        self._fewest, self._back = np.empty(n + 1, dtype=np.int32), np.empty(n + 1, dtype=np.int32)
        self._table: tuple[Floats, Ints] | None = None

    def order(self, keys: Floats, mode: int = 0, stage: Ints | None = None) -> Ints:
        """A topological order, by stage first; ``mode`` as in ``kernels.throughput.linear_orders.linearise``."""
        return order_by(self.blocks.graph, keys, mode, stage)

    def decide(self, order: Ints, target: float) -> Ints | None:
        """Labels of blocks of cost at most ``target`` along the order; None if there are none, or told to stop."""
        cut_order(self.blocks, order, target, self._fewest, None, self._back, self.stop)
        if self._fewest[-1] > self.blocks.devices:
            return None
        return self._labels(order, lambda end, _: self._back[end], int(self._fewest[-1]))

    def best(self, order: Ints, below: float = math.inf, tolerance: float = 0.0) -> tuple[float, Ints] | None:
        """The best cut of an order if it is below ``below``, otherwise None: one decision rejects most orders.

        With a ``tolerance`` a cut of a large problem may be worse than the best by so much (relative).
        """
        self.orders += 1
        if below == math.inf:
            found = self._first(order)
        else:
            found = self.decide(order, clearly_below(below))
        if found is None:
            return None
        value = float(costs_of(self.blocks, found).max())
        if value >= below:
            return None
        if self.blocks.items <= TABLE_ITEMS:
            return self._by_table(order, value, found)
        return self._by_decisions(order, value, found, tolerance)

    def _first(self, order: Ints) -> Ints | None:
        """Some cut: feel the way up from what is surely too low."""
        low, most = self.blocks.low, self.blocks.most
        step = 0.05
        while self.stop[0] == 0:
            target = min(low * (1 + step), most) if low > 0 else most
            found = self.decide(order, target)
            if found is not None or target >= most:
                return found
            step *= 2
        return None

    def _by_table(self, order: Ints, value: float, label: Ints) -> tuple[float, Ints]:
        n, k = self.blocks.items, self.blocks.devices
        if self._table is None:
            self._table = np.empty((n + 1, k + 1)), np.empty((n + 1, k + 1), dtype=np.int32)
        values, back = self._table
        cut_order(self.blocks, order, clearly_below(value), None, values, back, self.stop)
        if values[n, k] == math.inf:
            return value, label
        label = self._labels(order, lambda end, blocks: back[end, blocks], k)
        # With rounding, the sums along an order may differ from those of the blocks.
        return float(costs_of(self.blocks, label).max()), label

    def _by_decisions(self, order: Ints, value: float, label: Ints, tolerance: float = 0.0) -> tuple[float, Ints]:
        low = self.blocks.low
        while value > low * (1 + tolerance) and self.stop[0] == 0:
            # Halve the range until it is narrow; then one decision just under the value ends it, or lowers it.
            narrow = value - low <= 1e-4 * value
            target = clearly_below(value) if narrow else (low + value) / 2
            found = self.decide(order, target)
            if found is not None:
                value, label = float(costs_of(self.blocks, found).max()), found
            elif narrow:
                break
            else:
                low = target
        return value, label

    def _labels(self, order: Ints, start_of: Callable[[int, int], int], blocks: int) -> Ints:
        """Labels of so many blocks; ``start_of`` gives the start of the last of so many that end at a place."""
        label = np.empty(len(order), dtype=np.int32)
        end = len(order)
        while end > 0:
            start = int(start_of(end, blocks))
            blocks -= 1
            label[order[start:end]] = blocks
            end = start
        return label


class OrderSolver(ABC):
    """A search over blocks as a solver: it says its ``name`` and ``summary``, and how to ``search``."""

    name: ClassVar[str]
    summary: ClassVar[str]
    argument: ClassVar[str] = "a device holds the largest operator, and one device does at least the mean of the work"

    @abstractmethod
    def search(
        self, blocks: BlockProblem, incumbent: Incumbent[Ints], options: ThroughputOptions, *, timed: bool
    ) -> dict[str, float]:
        """Offer partitions (the block of every item) until done or ``incumbent.done``; the counters of the search.

        ``blocks`` are contracted, and ``timed`` tells whether there is a time limit.
        """

    def supports(self, problem: ThroughputProblem, options: ThroughputOptions) -> str | None:
        """Identical devices, acyclic splits, no variants but streaming."""
        return blocks_refusal(problem, options)

    def solve(self, problem: ThroughputProblem, options: ThroughputOptions, monitor: Monitor) -> Outcome:
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

        return searched(incumbent, monitor, work, lambda label: plan_of(problem, made[0], label))


class RandomOrders(OrderSolver):
    """Independent uniform priorities, a topological sort by them, and the best cut of every order.

    Source: Archer et al. (ICML 2024), §4.2 and App. C.1 (random).
    """

    name = "random-orders"
    summary = f"best cuts of {ORDERS} random topological orders, for identical devices; its bound is the simple one"

    def search(
        self, blocks: BlockProblem, incumbent: Incumbent[Ints], options: ThroughputOptions, *, timed: bool
    ) -> dict[str, float]:
        """Cut order after order until all are done."""
        random, cutter = np.random.default_rng(options.seed), Cutter(blocks, incumbent.stop)
        while cutter.orders < ORDERS and not incumbent.done:
            found = cutter.best(cutter.order(random.random(blocks.items)), incumbent.value)
            if found is not None:
                incumbent.offer(*found)
        return {"orders": cutter.orders}
