"""Annealing on partitions, the strongest search for identical devices."""

from __future__ import annotations

from partita.kernels.throughput.arrays import Ints
from partita.problems.throughput.orders.block_problem import BlockProblem, blocks_refusal
from partita.problems.throughput.orders.order_run import run_over_blocks
from partita.problems.throughput.orders.partition_search import PartitionSearch
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome
from partita.run.incumbent import Incumbent
from partita.run.monitor import Monitor

__all__ = ["PartitionAnnealing"]

#: Rounds without a time limit, and of small problems in any case.
ROUNDS, SMALL_ROUNDS = 16, 8
#: Items times devices up to which a problem is small.
SMALL = 200


class PartitionAnnealing:
    """See ``PartitionSearch``."""

    name = "partition-annealing"
    summary = "annealing on acyclic partitions, for identical devices; its bound is the simple one"

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        """Identical devices, acyclic splits, no variants but streaming."""
        return blocks_refusal(problem, options)

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        """Round after round until ``monitor.stopping``; a fixed number of them without a time limit, and of small
        problems."""

        def search(blocks: BlockProblem, incumbent: Incumbent[Ints]) -> dict[str, float]:
            engine = PartitionSearch(blocks, seed=options.seed, stop=incumbent.stop, report=incumbent.offer)
            small = blocks.items * blocks.devices <= SMALL
            endless = monitor.time_limit_s is not None and not small
            engine.run(rounds=None if endless else SMALL_ROUNDS if small else ROUNDS)
            return {"orders": engine.cutter.orders, "rounds": engine.rounds, "trials": engine.trials}

        return run_over_blocks(problem, monitor, search)
