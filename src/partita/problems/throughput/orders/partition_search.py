"""Annealing on partitions, the strongest search for identical devices: the engine and its solver.

It starts with cuts of a few orders. Then every round anneals a partition (``kernels.throughput.split_annealing``) and
cuts orders that respect the blocks found, and that let the boundaries of neighbouring blocks move. Rounds grow, differ
in power and temperature, and begin from the best partition or, every few rounds, from a new order. It works in small
steps, each the same whatever the clock says, so that a caller can give it time in slices, feed it partitions found
elsewhere, and get the same answers from the same seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.arrays import Ints, Longs
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.free_splits import blocks_as_devices, empty_state, reset
from partita.engines.kernels.throughput.orders import costs_of
from partita.engines.kernels.throughput.split_annealing import SplitMemory, anneal_acyclic
from partita.engines.search.incumbent import Incumbent
from partita.ground.rounding import up_to
from partita.problems.annealing import AnnealingSearch, Length
from partita.problems.throughput.orders.order_run import Cutter, OrderSolver
from partita.problems.throughput.protocol import ThroughputOptions

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


class PartitionSearch(AnnealingSearch):
    """Searches partitions of one problem into blocks; the same ``seed`` makes the same steps.

    The blocks may be of the bounds' relaxation, no more of them than items. Reaching ``low``, a lower bound, ends the
    search (the simple one is known anyway), and so does raising ``stop``. Every better partition is reported with its
    value. The ``cutter`` counts the orders that it cuts.
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
        n = blocks.items
        first = max(min(FIRST_SMALL * n, STEP), FIRST_LARGE * n)
        # Of its own: what is the best partition into blocks may not be worth anything to others.
        super().__init__(Incumbent[Ints](), seed, Length(first, GROWTH, MOST_PER_ITEM * n))
        if stop is not None:
            self.best.stop = stop

        def better(value: float, label: Ints, _: str) -> None:
            if report is not None:
                report(value, label)

        self.best.on_better = better
        self.blocks, self.low, self.cutter = blocks, max(low, blocks.low), Cutter(blocks, self.best.stop)
        memory, reload = blocks.limit.tolist()
        streams = math.isfinite(reload)
        self.memory = SplitMemory(
            math.isfinite(memory) and reload > 0, 0.0 if streams else math.inf, reload if streams else 0.0
        )
        self.arrays = blocks_as_devices(blocks)
        self.state = empty_state(self.arrays)

    @property
    def label(self) -> Ints:
        """The best partition: the block (0 … k − 1) of every item."""
        label = self.best.answer
        return np.zeros(self.blocks.items, dtype=np.int32) if label is None else label

    @property
    def done(self) -> bool:
        return self.closed or self.best.done

    @property
    def closed(self) -> bool:
        """Whether nothing better can exist (or ever will be found: one block)."""
        return self.value <= up_to(self.low) or (self.blocks.devices == 1 and self.value < math.inf)

    def offer(self, label: Ints) -> bool:
        """Take a partition found elsewhere if it is better; ``ValueError`` if a label is out of range or falls."""
        label = np.ascontiguousarray(label, dtype=np.int32)
        if label.shape != self.label.shape or label.min() < 0 or label.max() >= self.blocks.devices:
            raise ValueError(f"a partition has {self.blocks.items} labels from 0 to {self.blocks.devices - 1}")
        if self.blocks.falls(label):
            raise ValueError("labels fall along the order")
        return self.best.offer(costs_of(self.blocks, label).max(), label.copy())

    def round(self, number: int) -> Iterator[None]:
        """Anneal a partition, then cut orders that respect what came out; before the first one, cut a few orders."""
        if number == 0:
            yield from self._start()
        s, label = self.state, self.label
        if number % FRESH == FRESH - 1:
            order = self.cutter.order(self.random.random(self.blocks.items), int(self.random.integers(3)))
            found = self.cutter.best(order, tolerance=ROUGH)
            label = label if found is None else found[1]
            yield
        # The best of this round, which may begin somewhere else than at the best of all.
        s.label[:] = s.best[:] = label
        s.value[0] = costs_of(self.blocks, s.best).max()
        exponent, start, end = SCHEDULE[number % len(SCHEDULE)]
        cooler = min(1.0, COOLER * self.blocks.devices / self.blocks.items)
        cooling = Cooling(start, end, int(self.length)).times(cooler)

        def part(cooling: Cooling) -> None:
            # Loads are kept up by differences, and rounding adds up.
            reset(self.arrays, s)
            swaps = 0.0 if self.memory.limited else SWAPS
            anneal_acyclic(
                self.blocks.graph, self.arrays, s, self.memory, exponent, swaps, cooling, self.draws, self.best.stop
            )
            s.value[0] = costs_of(self.blocks, s.best).max()
            self.best.offer(s.value[0], s.best.copy())

        if s.value[0] < math.inf:
            yield from self.cool(cooling, STEP, part)
        yield from self._respect(float(s.value[0]), s.best)

    def _start(self) -> Iterator[None]:
        """Cut the given order and a few random ones: depth first, branches together, any."""
        n = self.blocks.items
        orders = max(3, min(24, 60_000 // max(1, n)))
        for number in range(orders):
            mode = (1, 2, 0)[number % 3]
            order = self.cutter.order(self.random.random(n), mode) if number else np.arange(n, dtype=np.int32)
            found = self.cutter.best(order, self.value, ROUGH)
            if found is not None:
                self.best.offer(*found)
            yield

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
                self.best.offer(value, label)
            yield


class PartitionAnnealing(OrderSolver):
    """See ``PartitionSearch``."""

    name = "partition-annealing"
    summary = "annealing on acyclic partitions, for identical devices; its bound is the simple one"

    def search(
        self, blocks: BlockProblem, incumbent: Incumbent[Ints], options: ThroughputOptions, *, timed: bool
    ) -> dict[str, float]:
        """Round after round; a fixed number of them without a time limit, and of small problems."""
        engine = PartitionSearch(blocks, seed=options.seed, stop=incumbent.stop, report=incumbent.offer)
        small = blocks.items * blocks.devices <= SMALL
        engine.run(rounds=SMALL_ROUNDS if small else math.inf if timed else ROUNDS)
        return {"orders": engine.cutter.orders, "rounds": engine.number, "trials": engine.trials}
