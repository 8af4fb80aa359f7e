"""Orders found by the genetic algorithm: for the best cut, or for the shortest arrangement."""

from __future__ import annotations

from partita.kernels.throughput.arrays import Ints
from partita.kernels.throughput.blocks import BlockProblem
from partita.problems.throughput.orders.genetic import GENERATIONS, POPULATION, Genetic
from partita.problems.throughput.orders.optimal_cuts import Cutter
from partita.problems.throughput.orders.order_run import OrderSolver
from partita.problems.throughput.protocol import Options
from partita.run.incumbent import Incumbent


class Evolution(OrderSolver):
    """The genetic search over orders.

    Source: Archer et al. (ICML 2024), §4.2, Algorithm 2.
    """

    name = "genetic"
    summary = (
        f"genetic search over orders, population {POPULATION}, {GENERATIONS} generations, for identical devices; "
        "its bound is the simple one"
    )
    #: Whether the fitness is the weighted linear arrangement; see ``Genetic``.
    arrange = False

    def search(
        self, blocks: BlockProblem, incumbent: Incumbent[Ints], options: Options, *, timed: bool
    ) -> dict[str, float]:
        """All generations; every better order is cut."""
        genetic = Genetic(blocks, options.seed, incumbent.stop, arrange=self.arrange)
        cutter = Cutter(blocks, incumbent.stop)
        while genetic.generations < GENERATIONS and not incumbent.done:
            better = genetic.generation()
            if better and genetic.order is not None:
                found = cutter.best(genetic.order, incumbent.value)
                if found is not None:
                    incumbent.offer(*found)
        return {"orders": genetic.evaluations, "generations": genetic.generations}


class Arrangement(Evolution):
    """Cuts of the shortest weighted linear arrangement found: an order in which nets span few items.

    Every improvement of the arrangement is cut; the search itself does not look at the cuts.

    Source: Archer et al. (ICML 2024), App. C.1 (mla-weighted).
    """

    name = "arrangement"
    summary = "cuts of the shortest linear arrangements found, for identical devices; its bound is the simple one"
    arrange = True
