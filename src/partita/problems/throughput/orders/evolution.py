"""Orders found by the genetic algorithm: for the best cut, or for the shortest arrangement."""

from __future__ import annotations

from partita.kernels.throughput.arrays import Ints
from partita.problems.throughput.orders.block_problem import BlockProblem, blocks_refusal
from partita.problems.throughput.orders.genetic import GENERATIONS, POPULATION, Genetic
from partita.problems.throughput.orders.optimal_cuts import Cutter
from partita.problems.throughput.orders.order_run import run_over_blocks
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome
from partita.run.incumbent import Incumbent
from partita.run.monitor import Monitor

__all__ = ["Arrangement", "Evolution"]


def _evolve(problem: ThroughputProblem, options: Options, monitor: Monitor, *, arrange: bool) -> Outcome:
    def search(blocks: BlockProblem, incumbent: Incumbent[Ints]) -> dict[str, float]:
        genetic = Genetic(blocks, options.seed, incumbent.stop, arrange=arrange)
        cutter = Cutter(blocks, incumbent.stop)
        while genetic.generations < GENERATIONS and not incumbent.done:
            better = genetic.generation()
            if better and genetic.order is not None:
                found = cutter.best(genetic.order, incumbent.value)
                if found is not None:
                    incumbent.offer(*found)
        return {"orders": genetic.evaluations, "generations": genetic.generations}

    return run_over_blocks(problem, monitor, search)


class Evolution:
    """The genetic search over orders.

    Source: Archer et al. (ICML 2024), §4.2, Algorithm 2.
    """

    name = "genetic"
    summary = (
        f"genetic search over orders, population {POPULATION}, {GENERATIONS} generations, for identical devices; "
        "its bound is the simple one"
    )

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        """Identical devices, acyclic splits, no variants but streaming."""
        return blocks_refusal(problem, options)

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        """All generations, or until ``monitor.stopping``."""
        return _evolve(problem, options, monitor, arrange=False)


class Arrangement:
    """Cuts of the shortest weighted linear arrangement found: an order in which nets span few items.

    Every improvement of the arrangement is cut; the search itself does not look at the cuts.

    Source: Archer et al. (ICML 2024), App. C.1 (mla-weighted).
    """

    name = "arrangement"
    summary = "cuts of the shortest linear arrangements found, for identical devices; its bound is the simple one"

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        """Identical devices, acyclic splits, no variants but streaming."""
        return blocks_refusal(problem, options)

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        """All generations, or until ``monitor.stopping``."""
        return _evolve(problem, options, monitor, arrange=True)
