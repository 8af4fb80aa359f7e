"""Annealing in rounds: from constructions, from chance, and from the best mapping, the power of the energy rising.

Source: own; the energy is that of ``partita.engines.kernels.mapping.anneal``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.arrays import Ints
from partita.engines.kernels.mapping.anneal import anneal
from partita.engines.kernels.random import generator
from partita.engines.search.incumbent import Incumbent
from partita.problems.annealing import AnnealingSearch
from partita.problems.mapping.instance import MappingInstance, device_array
from partita.problems.mapping.loops import looped
from partita.problems.mapping.orders import constructions
from partita.problems.mapping.problem import Placement

#: Moves of one power for each replica, from a construction or the best mapping, and from chance; they grow by a factor
#: with every cycle of ladders, up to a limit.
_MOVES, _HOT_MOVES, _MOST, _GROWTH = 300, 600, 8_000, 1.4
#: Exponents with temperatures at their start and end: from a construction, and from the best mapping.
_Levels = tuple[tuple[int, float, float], ...]
_RISING: _Levels = ((1, 0.1, 0.02), (2, 0.2, 0.02), (4, 0.2, 0.02), (8, 0.2, 0.02), (16, 0.2, 0.01), (32, 0.2, 0.01))
_SETTLING: _Levels = ((4, 0.3, 0.02), (8, 0.2, 0.02), (16, 0.2, 0.01), (32, 0.2, 0.01))
#: The same from chance, in turn: hot enough to melt. Small sums and small maxima are found by different ones.
_LADDERS: tuple[_Levels, ...] = (
    ((1, 3.0, 0.05), (2, 0.5, 0.02), (4, 0.3, 0.02), (8, 0.2, 0.02), (16, 0.2, 0.01), (32, 0.2, 0.01)),
    ((1, 3.0, 0.2), (2, 2.0, 0.02), (8, 0.5, 0.02), (32, 0.2, 0.01)),
    ((2, 10.0, 0.3), (4, 2.0, 0.02), (8, 0.5, 0.02), (32, 0.2, 0.01)),
)
#: From mappings around a loop, which hot rounds would undo: every second round, with so many moves.
_AROUND: _Levels = ((1, 0.2, 0.1), (2, 0.4, 0.1), (4, 0.6, 0.1), (8, 0.5, 0.05), (32, 0.2, 0.01))
_AROUND_MOVES = 1500
#: Rounds without a better mapping after which it ends: fewer for few replicas, so many for each.
PATIENCE, SHORT = 40, 3


class MappingSearch(AnnealingSearch):
    """A search on one problem, with so many rounds at once; fewer ``workers`` get the same answer."""

    def __init__(self, instance: MappingInstance, best: Incumbent[Placement], seed: int, threads: int) -> None:
        super().__init__(best, seed, abreast=threads)
        self.instance, self.workers = instance, threads
        self.starts: list[Ints] = []
        self.loops: list[Ints] = []

    def begin(self, others: Sequence[Ints] = ()) -> None:
        """Offer mappings that are there without search, and begin from them."""
        for device in (*others, *constructions(self.instance)):
            self.instance.offer(self.best, device, "construction")
            if not any(np.array_equal(device, known) for known in self.starts):
                self.starts.append(device)
        self.loops = list(looped(self.instance))

    def round(self, number: int) -> Iterator[None]:
        # All begin from the same best mapping: who is first changes nothing.
        value, plan, _ = self.best.snapshot()
        known = None if plan is None else device_array(plan)
        with ThreadPoolExecutor(self.workers) as pool:
            numbers = range(number, number + self.abreast)
            for device, trials in pool.map(self._anneal, numbers, repeat(known), repeat(value)):
                self.trials += trials
                if device is not None:
                    self.instance.offer(self.best, device, "annealing")
        yield

    def _anneal(self, number: int, known: Ints | None, value: float) -> tuple[Ints | None, int]:
        """The best mapping of a round, if it is better than the best known, and the moves tried."""
        instance = self.instance
        if number < len(self.starts):
            device, levels, each = self.starts[number].copy(), _RISING, float(_MOVES)
        else:
            turn, around = number - len(self.starts), -1
            if self.loops:
                turn, around = turn // 2, turn // 2 if turn % 2 == 0 else -1
            cycle, turn = divmod(turn, len(_LADDERS) + 1)
            growth = _GROWTH**cycle
            if around >= 0:
                device = self.loops[around % len(self.loops)].copy()
                levels, each = _AROUND, _AROUND_MOVES * growth
            elif turn < len(_LADDERS):
                random = np.random.default_rng((self.seed, number))
                device = random.permutation(instance.devices)[: instance.count].astype(np.int32)
                levels, each = _LADDERS[turn], _HOT_MOVES * growth
            else:
                assert known is not None
                device, levels, each = known.copy(), _SETTLING, _MOVES * growth
        moves, made = int(instance.count * min(each, _MOST)), 0
        found: Ints = np.empty(instance.count, dtype=np.int32)
        target, scale, draws = math.inf, value if value > 0 else 1.0, generator(self.seed * 1_000_003 + number)
        for exponent, start, end in levels:
            cooling, stop = Cooling(start, end, moves), self.best.stop
            target = anneal(
                instance.arrays, instance.near, device, found, scale, exponent, target, cooling, draws, stop
            )
            made += moves
            scale = target if target > 0 else 1.0
            if exponent > 1:
                device = found.copy()
            if stop[0] != 0:
                break
        return (found if target < value else None), made
