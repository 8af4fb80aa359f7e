"""Annealing in rounds: from constructions, from chance, and from the best mapping, the power of the energy rising.

Source: own; the energy is that of ``partita.kernels.mapping.anneal``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

import numpy as np

from partita.kernels.arrays import Ints
from partita.problems.mapping.instance import Instance, device_array
from partita.problems.mapping.orders import constructions
from partita.problems.mapping.plan import Placement
from partita.run.incumbent import Incumbent

#: Moves of one power for each replica, from a construction or the best mapping, and from chance; they grow by a factor
#: with every cycle of ladders, up to a limit.
_MOVES, _HOT_MOVES, _MOST, _GROWTH = 300, 600, 8_000, 1.4
#: Powers (as doublings of 1) with temperatures at their start and end: from a construction, and from the best mapping.
_Levels = tuple[tuple[int, float, float], ...]
_RISING: _Levels = ((0, 0.1, 0.02), (1, 0.2, 0.02), (2, 0.2, 0.02), (3, 0.2, 0.02), (4, 0.2, 0.01), (5, 0.2, 0.01))
_SETTLING: _Levels = ((2, 0.3, 0.02), (3, 0.2, 0.02), (4, 0.2, 0.01), (5, 0.2, 0.01))
#: The same from chance, in turn: hot enough to melt. Small sums and small maxima are found by different ones.
_LADDERS: tuple[_Levels, ...] = (
    ((0, 3.0, 0.05), (1, 0.5, 0.02), (2, 0.3, 0.02), (3, 0.2, 0.02), (4, 0.2, 0.01), (5, 0.2, 0.01)),
    ((0, 3.0, 0.2), (1, 2.0, 0.02), (3, 0.5, 0.02), (5, 0.2, 0.01)),
    ((1, 10.0, 0.3), (2, 2.0, 0.02), (3, 0.5, 0.02), (5, 0.2, 0.01)),
)
#: Rounds without a better mapping after which it ends: fewer for few replicas, so many for each.
PATIENCE, SHORT = 40, 3


class Annealing:
    """A search on one problem; the same seed makes the same steps whatever the clock says.

    Attributes
    ----------
    moves
        Moves tried.
    """

    def __init__(self, instance: Instance, best: Incumbent[Placement], seed: int, threads: int) -> None:
        self.instance, self.best = instance, best
        self.seed, self.threads = seed, threads
        self.starts: list[Ints] = []
        self.number = self.moves = 0

    def begin(self, others: Sequence[Ints] = ()) -> None:
        """Offer mappings that are there without search, and begin from them."""
        for device in (*others, *constructions(self.instance)):
            self.instance.offer(self.best, device, "construction")
            if not any(np.array_equal(device, known) for known in self.starts):
                self.starts.append(device)

    def rounds(self, done: Callable[[], bool], patience: int = PATIENCE, *, workers: int | None = None) -> None:
        """Until told to stop, or so many rounds were in vain; in fewer threads, if so asked, with the same answer."""
        vain = 0
        with ThreadPoolExecutor(workers or self.threads) as pool:
            while not done() and vain < patience:
                before = self.best.value
                numbers = range(self.number, self.number + self.threads)
                self.number += self.threads
                # All begin from the same best mapping: who is first changes nothing.
                _, plan, _ = self.best.snapshot()
                known = None if plan is None else device_array(plan)
                for device in pool.map(self._round, numbers, repeat(known), repeat(before)):
                    if device is not None:
                        self.instance.offer(self.best, device, "annealing")
                vain = 0 if self.best.value < before else vain + self.threads

    def _round(self, number: int, known: Ints | None, value: float) -> Ints | None:
        """The best mapping of a round if it is better than the best known."""
        from partita.kernels.mapping.anneal import Cooling, anneal

        instance = self.instance
        if number < len(self.starts):
            device, levels, each = self.starts[number].copy(), _RISING, float(_MOVES)
        else:
            cycle, turn = divmod(number - len(self.starts), len(_LADDERS) + 1)
            growth = _GROWTH**cycle
            if turn < len(_LADDERS):
                random = np.random.default_rng((self.seed, number))
                device = random.permutation(instance.devices)[: instance.count].astype(np.int32)
                levels, each = _LADDERS[turn], _HOT_MOVES * growth
            else:
                assert known is not None
                device, levels, each = known.copy(), _SETTLING, _MOVES * growth
        moves = int(instance.count * min(each, _MOST))
        found: Ints = np.empty(instance.count, dtype=np.int32)
        target, scale = math.inf, value if value > 0 else 1.0
        for doublings, start, end in levels:
            cooling = Cooling(
                (self.seed * 1_000_003 + number * 101 + doublings) % 2**31, moves, start, end, doublings, scale
            )
            target = anneal(instance.arrays, instance.near, device, found, cooling, target, self.best.stop)
            self.moves += moves
            scale = target if target > 0 else 1.0
            if doublings >= 1:
                device = found.copy()
            if self.best.stop[0] != 0:
                break
        return found if target < value else None
