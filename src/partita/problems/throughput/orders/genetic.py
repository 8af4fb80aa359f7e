"""A genetic algorithm on random keys, and its solvers: for the best cut, or for the shortest arrangement.

A chromosome is one priority per item, its decoder a topological sort. Every generation keeps its elite, adds mutants
(new random keys), and fills up with children of an elite and another parent, which take each key from the elite one
with probability ``BIAS``.

Source: Gonçalves and Resende, "Biased random-key genetic algorithms for combinatorial optimization" (2011), with the
decoder, the population and the generations of Archer et al. (ICML 2024), §4.2 and App. C.1. They do not state the
shares; these lie in the ranges that the 2011 article recommends.
"""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.orders import decode
from partita.engines.search.incumbent import Incumbent
from partita.problems.throughput.orders.order_run import Cutter, OrderSolver
from partita.problems.throughput.protocol import ThroughputOptions

POPULATION, GENERATIONS = 100, 100
#: Shares of a population that survive as the elite, and that are replaced by new random keys.
ELITE, MUTANTS = 0.20, 0.15
#: Probability that a child has its elite parent's key.
BIAS = 0.7


class Genetic:
    """One population; ``generation`` makes the next, and a raised ``stop`` ends it early.

    The fitness is the largest cost of the best cut, or with ``arrange`` the weighted linear arrangement Σ cost ·
    distance of a net's pins from its first. ``fitness`` and ``order`` are of the best chromosome, infinite and None
    before the first generation; ``evaluations`` counts the chromosomes decoded.
    """

    def __init__(
        self, blocks: BlockProblem, seed: int, stop: Longs, *, arrange: bool = False, population: int = POPULATION
    ) -> None:
        self.blocks, self.stop, self.arrange, self.population = blocks, stop, arrange, population
        self.random = np.random.default_rng(seed)
        self.fitness = math.inf
        self.order: Ints | None = None
        self.evaluations, self.generations = 0, 0
        self._keys: Floats = np.zeros((0, blocks.items))
        self._values: Floats = np.zeros(0)
        #: A guess at the next fitness, and where guessing ends.
        self._above = np.array([max(blocks.low, 1e-300) * 1.5, blocks.most])

    def generation(self) -> bool:
        """Decode the next generation; whether it has a better chromosome than any before."""
        random, n = self.random, self.blocks.items
        keep = round(ELITE * self.population) if len(self._values) else 0
        if keep:
            fresh: Floats = np.empty((self.population - keep, n))
            mutants = round(MUTANTS * self.population)
            children = len(fresh) - mutants
            fresh[children:] = random.random((mutants, n))
            elite = self._keys[random.integers(0, keep, children)]
            other = self._keys[random.integers(keep, len(self._keys), children)]
            fresh[:children] = np.where(random.random((children, n)) < BIAS, elite, other)
        else:
            fresh = random.random((self.population, n))
        before, values, orders = self.fitness, np.full(len(fresh), np.inf), np.empty(fresh.shape, dtype=np.int32)
        # Fewer than given where the run stops.
        done = decode(self.blocks, fresh, self.blocks.devices, self.arrange, self._above, values, orders, self.stop)
        self.evaluations += done
        if done and (self.order is None or values[:done].min() < self.fitness):
            self.fitness = float(values[:done].min())
            self.order = orders[int(values[:done].argmin())].copy()
        keys = np.concatenate([self._keys[:keep], fresh[:done]])
        merged = np.concatenate([self._values[:keep], values[:done]])
        rank = np.argsort(merged, kind="stable")
        self._keys, self._values = keys[rank], merged[rank]
        self.generations += 1
        return self.fitness < before


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
        self, blocks: BlockProblem, incumbent: Incumbent[Ints], options: ThroughputOptions, *, timed: bool
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
