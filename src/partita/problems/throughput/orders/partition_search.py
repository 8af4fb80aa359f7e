"""Annealing on partitions, the strongest search for identical devices: the engine and its solver.

It starts with cuts of a few orders. Then every round anneals a partition (``kernels.throughput.anneal_partition``) and
cuts orders that respect the blocks found, and that let the boundaries of neighbouring blocks move. Rounds grow, differ
in power and temperature, and begin from the best partition or, every few rounds, from a new order. It works in small
steps, each the same whatever the clock says, so that a caller can give it time in slices, feed it partitions found
elsewhere, and get the same answers from the same seed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

import numpy as np

from partita.kernels.arrays import Ints, Longs
from partita.kernels.throughput.blocks import BlockProblem
from partita.kernels.throughput.orders import costs_of
from partita.problems.throughput.orders.optimal_cuts import Cutter
from partita.problems.throughput.orders.order_run import OrderSolver
from partita.problems.throughput.protocol import Options
from partita.rounding import up_to
from partita.run.incumbent import Incumbent

#: (power, first temperature, last temperature) of rounds that take turns. A low power moves load between all blocks; a
#: high one sees the largest only.
SCHEDULE = ((8, 0.6, 0.003), (12, 0.3, 0.003), (8, 0.2, 0.005), (30, 0.05, 0.002))
#: Temperatures are lower where a move is small beside a block: by this times devices per item.
COOLER = 22.0
#: Most trials of one step.
STEP = 1 << 18
#: Trials per item of the first round: of small problems (up to a step's trials), and of large ones.
FIRST_SMALL, FIRST_LARGE = 1500, 300
#: Rounds grow by this, up to so many trials per item.
GROWTH, MOST_PER_ITEM = 1.3, 1 << 19
#: Share of trials that exchange two items.
SWAPS = 0.5
#: Every so many rounds one begins from a new order.
FRESH = 8
#: Cuts of large problems need not be better than this: annealing goes on with them.
ROUGH = 0.003
#: Stage-respecting orders cut after a round.
CUTS = 6
#: Rounds without a time limit, and of small problems in any case.
ROUNDS, SMALL_ROUNDS = 16, 8
#: Items times devices up to which a problem is small.
SMALL = 200


class PartitionSearch:
    """Searches partitions of one problem into blocks; the same ``seed`` makes the same steps.

    The blocks may be of the bounds' relaxation, by ``blocks_of``. Reaching ``low``, a lower bound, ends the search (the
    simple one is known anyway), and so does raising ``stop``. Every better partition is reported with its value.

    Attributes
    ----------
    value, label
        The best partition: its largest cost, infinite for none, and the block (0 … k − 1) of every item.
    rounds, trials
        Rounds of annealing and moves tried.
    cutter
        Cuts orders; counts them.
    """

    def __init__(
        self,
        blocks: BlockProblem,
        *,
        seed: int = 0,
        stop: Longs | None = None,
        low: float = 0.0,
        report: Callable[[float, Ints], object] | None = None,
    ) -> None:
        self.blocks, self.report = blocks, report
        self.stop = np.zeros(1, dtype=np.int64) if stop is None else stop
        self.low = max(low, blocks.low)
        self.random = np.random.default_rng(seed)
        self.cutter = Cutter(blocks, self.stop)
        self.value, self.label = math.inf, np.zeros(blocks.items, dtype=np.int32)
        self.rounds, self.trials = 0, 0
        self._steps = self._work()

    @property
    def closed(self) -> bool:
        """Whether nothing better can exist (or ever will be found: one block)."""
        return self.value <= up_to(self.low) or (self.blocks.devices == 1 and self.value < math.inf)

    def offer(self, label: Ints) -> bool:
        """Take a partition found elsewhere if it is better.

        Raises
        ------
        ValueError
            If a label is out of range, or falls along the order.
        """
        label = np.ascontiguousarray(label, dtype=np.int32)
        if label.shape != self.label.shape or label.min() < 0 or label.max() >= self.blocks.devices:
            raise ValueError(f"a partition has {self.blocks.items} labels from 0 to {self.blocks.devices - 1}")
        if self.blocks.falls(label):
            raise ValueError("labels fall along the order")
        return self._take(float(costs_of(self.blocks, label).max()), label)

    def run(self, seconds: float = math.inf, *, rounds: int | None = None) -> bool:
        """Work for about so long, or for so many rounds more; whether there is a better partition than before.

        It ends earlier when the value is ``closed``, or when told to stop.
        """
        before, end = self.value, time.perf_counter() + seconds
        last = math.inf if rounds is None else self.rounds + rounds
        while not self.closed and self.stop[0] == 0 and self.rounds < last and time.perf_counter() < end:
            next(self._steps)
        return self.value < before

    def _take(self, value: float, label: Ints) -> bool:
        if value >= self.value:
            return False
        self.value, self.label = value, label.copy()
        if self.report is not None:
            self.report(value, self.label)
        return True

    def _work(self) -> Iterator[None]:
        """All there is to do, in steps; never ends."""
        yield from self._start()
        n = self.blocks.items
        length = float(max(min(FIRST_SMALL * n, STEP), FIRST_LARGE * n))
        number = 0
        while True:
            label = self.label.copy()
            if number % FRESH == FRESH - 1:
                order = self.cutter.order(self.random.random(n), int(self.random.integers(3)))
                found = self.cutter.best(order, tolerance=ROUGH)
                label = self.label.copy() if found is None else found[1]
                yield
            yield from self._round(label, SCHEDULE[number % len(SCHEDULE)], int(length))
            number += 1
            self.rounds += 1
            length = min(length * GROWTH, float(MOST_PER_ITEM * n))

    def _start(self) -> Iterator[None]:
        """Cut the given order and a few random ones: depth first, branches together, any."""
        n = self.blocks.items
        orders = max(3, min(24, 60_000 // max(1, n)))
        for number in range(orders):
            mode = (1, 2, 0)[number % 3]
            order = self.cutter.order(self.random.random(n), mode) if number else np.arange(n, dtype=np.int32)
            found = self.cutter.best(order, self.value, ROUGH)
            if found is not None:
                self._take(*found)
            yield

    def _round(self, label: Ints, schedule: tuple[int, float, float], length: int) -> Iterator[None]:
        """Anneal a partition, then cut orders that respect what came out."""
        from partita.kernels.throughput.anneal_partition import Cooling, anneal_blocks

        power, start, end = schedule
        start *= min(1.0, COOLER * self.blocks.devices / self.blocks.items)
        end *= min(1.0, COOLER * self.blocks.devices / self.blocks.items)
        kept, value = label.copy(), math.inf
        steps = -(-length // STEP)
        trials = -(-length // steps)
        cool = (end / start) ** (1 / steps)
        for step in range(steps):
            hot = start * cool**step
            seed = int(self.random.integers(1 << 31))
            # ``kept`` is the best of this round, which may begin somewhere else than at the best of all.
            cooling = Cooling(power, hot, hot * cool, trials, seed)
            value = anneal_blocks(self.blocks, label, kept, value, cooling, SWAPS, self.stop)
            self.trials += trials
            self._take(value, kept)
            if self.closed or self.stop[0] != 0:
                return
            yield
        yield from self._respect(value, kept)

    def _respect(self, value: float, label: Ints) -> Iterator[None]:
        """Cut orders that sort by block first; fusing the keys of neighbours lets their boundary move."""
        for number in range(CUTS):
            fused = label
            if number % 4:
                width = 3 if number % 4 == 3 else 2
                fused = (label + int(self.random.integers(width))) // width
            order = self.cutter.order(self.random.random(self.blocks.items), int(self.random.integers(3)), fused)
            found = self.cutter.best(order, value, ROUGH)
            if found is not None:
                value, label = found
                self._take(value, label)
            yield


class PartitionAnnealing(OrderSolver):
    """See ``PartitionSearch``."""

    name = "partition-annealing"
    summary = "annealing on acyclic partitions, for identical devices; its bound is the simple one"
    argument = "a device holds the largest operator, and one device does at least the mean of the work"

    def search(
        self, blocks: BlockProblem, incumbent: Incumbent[Ints], options: Options, *, timed: bool
    ) -> dict[str, float]:
        """Round after round; a fixed number of them without a time limit, and of small problems."""
        engine = PartitionSearch(blocks, seed=options.seed, stop=incumbent.stop, report=incumbent.offer)
        small = blocks.items * blocks.devices <= SMALL
        engine.run(rounds=SMALL_ROUNDS if small else None if timed else ROUNDS)
        return {"orders": engine.cutter.orders, "rounds": engine.rounds, "trials": engine.trials}
