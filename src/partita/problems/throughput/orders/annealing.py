"""Annealing on partitions, the strongest search for identical devices."""

from __future__ import annotations

from partita.kernels.throughput.arrays import Ints
from partita.kernels.throughput.blocks import BlockProblem
from partita.problems.throughput.orders.order_run import OrderSolver
from partita.problems.throughput.orders.partition_search import PartitionSearch
from partita.problems.throughput.protocol import Options
from partita.run.incumbent import Incumbent

#: Rounds without a time limit, and of small problems in any case.
ROUNDS, SMALL_ROUNDS = 16, 8
#: Items times devices up to which a problem is small.
SMALL = 200


class PartitionAnnealing(OrderSolver):
    """See ``PartitionSearch``."""

    name = "partition-annealing"
    summary = "annealing on acyclic partitions, for identical devices; its bound is the simple one"

    def search(
        self, blocks: BlockProblem, incumbent: Incumbent[Ints], options: Options, *, timed: bool
    ) -> dict[str, float]:
        """Round after round; a fixed number of them without a time limit, and of small problems."""
        engine = PartitionSearch(blocks, seed=options.seed, stop=incumbent.stop, report=incumbent.offer)
        small = blocks.items * blocks.devices <= SMALL
        engine.run(rounds=SMALL_ROUNDS if small else None if timed else ROUNDS)
        return {"orders": engine.cutter.orders, "rounds": engine.rounds, "trials": engine.trials}
