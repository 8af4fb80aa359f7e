"""Annealing in rounds: from constructions, from chance, and from the best mapping, the power of the energy rising.

Source: own; the energy is that of ``partita.engines.kernels.mapping.anneal``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Literal, NamedTuple

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.arrays import Ints, Words
from partita.engines.kernels.mapping.anneal import anneal
from partita.engines.kernels.random import generator
from partita.engines.search.incumbent import Incumbent
from partita.problems.annealing import AnnealingSearch
from partita.problems.mapping.instance import MappingInstance, device_array
from partita.problems.mapping.loops import looped
from partita.problems.mapping.orders import constructions
from partita.problems.mapping.problem import Placement
from partita.problems.mapping.refilling import Refilling

#: Exponents with temperatures at their start and end.
_Levels = tuple[tuple[int, float, float], ...]


class _Sort(NamedTuple):
    """A sort of round: where it begins, its powers, and moves of one power for each replica."""

    begin: Literal["start", "chance", "loop", "best", "filled"]
    levels: _Levels
    moves: float
    growth: float = 1.4  #: Of moves with every cycle, up to the most.
    most: float = 8_000


#: From a construction, the power rising, and from the best mapping.
_RISING = _Sort(
    "start", ((1, 0.1, 0.02), (2, 0.2, 0.02), (4, 0.2, 0.02), (8, 0.2, 0.02), (16, 0.2, 0.01), (32, 0.2, 0.01)), 300
)
_SETTLING = _Sort("best", ((4, 0.3, 0.02), (8, 0.2, 0.02), (16, 0.2, 0.01), (32, 0.2, 0.01)), 300)
#: From chance: hot enough to melt. Small sums and small maxima are found by different ones.
_LADDERS = (
    _Sort(
        "chance",
        ((1, 3.0, 0.05), (2, 0.5, 0.02), (4, 0.3, 0.02), (8, 0.2, 0.02), (16, 0.2, 0.01), (32, 0.2, 0.01)),
        600,
    ),
    _Sort("chance", ((1, 3.0, 0.2), (2, 2.0, 0.02), (8, 0.5, 0.02), (32, 0.2, 0.01)), 600),
    _Sort("chance", ((2, 10.0, 0.3), (4, 2.0, 0.02), (8, 0.5, 0.02), (32, 0.2, 0.01)), 600),
)
#: The same in one go, where replicas are so many and have many links that are nearly as fast.
_LONG, _LONG_FROM = _Sort("chance", ((32, 3.0, 0.01),), 15_000, 2.0, 100_000), 100
#: From mappings around a loop, which hot rounds would undo: every second round.
_AROUND = _Sort("loop", ((1, 0.2, 0.1), (2, 0.4, 0.1), (4, 0.6, 0.1), (8, 0.5, 0.05), (32, 0.2, 0.01)), 1500)
#: From the best mapping with islands that are filled anew within targets so far below it, in turn: every second round.
_FILLED, _BELOW = _Sort("filled", ((1, 1.0, 0.05),), 10_000, most=100_000), (0.05, 0.02, 0.1, 0.01)
_FILLED_MOVES = 650_000  #: In such a round at first, of all replicas together.
#: From mappings that are made of shares of columns, in turn, with so many moves of one power for each replica. What
#: comes out is chance, so that many short ones get further than a long one: so many more for every such mapping, since
#: targets come closer, up to a limit.
_SHARED: tuple[tuple[_Levels, int], ...] = (
    (((4, 0.1, 0.02), (32, 0.1, 0.01)), 400),
    (((16, 0.5, 0.01), (64, 0.3, 0.01)), 400),
    (((8, 0.5, 0.02), (32, 0.3, 0.01)), 400),
    (((16, 1.0, 0.01), (64, 0.3, 0.01)), 800),
)
_SHARED_TRIES, _SHARED_MOST = 4, 12
#: Rounds without a better mapping after which it ends: fewer for few replicas, so many for each.
PATIENCE, SHORT = 40, 3


class MappingSearch(AnnealingSearch):
    """A search on one problem, with so many rounds at once; fewer ``workers`` get the same answer.

    Rounds see its own best mapping alone: what others find meanwhile has to be taken over, so that the same seed makes
    the same rounds.
    """

    def __init__(self, instance: MappingInstance, best: Incumbent[Placement], seed: int, threads: int) -> None:
        super().__init__(best, seed, abreast=threads)
        self.instance, self.workers = instance, threads
        self.shared = 0  # Mappings that are made of shares of columns.
        self.refilling = Refilling(instance)
        self.starts: list[Ints] = []
        self.loops: list[Ints] = []
        self.cycle: list[_Sort] = []  # Sorts of rounds after the starts, in turn.
        self._value: float = math.inf
        self._device: Ints | None = None

    @property
    def value(self) -> float:
        return self._value

    def catch_up(self) -> None:
        """Go on from the best mapping that anybody has found."""
        self._value, plan, _ = self.best.snapshot()
        self._device = None if plan is None else device_array(plan)

    def _take(self, device: Ints, by: str) -> None:
        """Offer a mapping, and go on from it if it is better."""
        value = self.instance.offer(self.best, device, by)
        if value < self._value:
            self._value, self._device = value, device

    def begin(self, others: Sequence[Ints] = ()) -> None:
        """Offer mappings that are there without search, and begin from them."""
        for device in (*others, *constructions(self.instance)):
            self._take(device, "construction")
            if not any(np.array_equal(device, known) for known in self.starts):
                self.starts.append(device)
        self.loops = list(looped(self.instance))
        filled = bool(self.refilling.islands)
        long = (_LONG,) if self.instance.count >= _LONG_FROM and not filled else ()
        self.cycle = [*_LADDERS, *long, _SETTLING]
        if filled or self.loops:
            self.cycle = [one for sort in self.cycle for one in (_FILLED if filled else _AROUND, sort)]

    def round(self, number: int) -> Iterator[None]:
        # All begin from the same best mapping: who is first changes nothing.
        value, known = self._value, self._device
        with ThreadPoolExecutor(self.workers) as pool:
            numbers = range(number, number + self.abreast)
            for device, trials in pool.map(self._anneal, numbers, repeat(known), repeat(value)):
                self.trials += trials
                if device is not None:
                    self._take(device, "annealing")
        yield

    def settle_shares(self, device: Ints, target: float) -> float:
        """Offer the best mapping near one whose columns fill islands as they should; what it is worth.

        It is made beside the rounds, which know nothing of it, until it is within a target.
        """
        first = found = self.instance.offer(self.best, device, "shares of columns")
        self.shared += 1
        tries = min(_SHARED_TRIES * self.shared, _SHARED_MOST)
        for near, value, _ in self._near(device, first, target, tries, self.seed):
            self.instance.offer(self.best, near, "shares of columns")
            found = min(found, value)
        return found

    def _near(
        self, device: Ints, value: float, target: float, tries: int, seed: int
    ) -> Iterator[tuple[Ints, float, int]]:
        """Mappings near one that is worth so much, each by a short annealing from it, until one is within a target."""
        found = value
        for number in range(tries):
            if found <= target or self.best.done:
                break
            levels, each = _SHARED[number % len(_SHARED)]
            near = self._cool(device, levels, each, value, generator(seed + number))
            found = min(found, near[1])
            yield near

    def _anneal(self, number: int, known: Ints | None, value: float) -> tuple[Ints | None, int]:
        """The best mapping of a round, if it is better than the best known, and the moves tried."""
        turn, cycle, sort = number - len(self.starts), 0, _RISING
        if turn >= 0:
            cycle, which = divmod(turn, len(self.cycle))
            sort = self.cycle[which]
        each = min(sort.moves * sort.growth**cycle, sort.most)
        draws = generator(self.seed * 1_000_003 + number)
        if sort.begin == "filled":
            assert known is not None
            # A long round of many replicas would keep the bounds beside it waiting for a processor.
            each = min(each, _FILLED_MOVES * sort.growth**cycle / self.instance.count)
            below = value * (1 - _BELOW[turn // 2 % len(_BELOW)])
            return self._refilled(known, value, below, each, draws, repeated=cycle % 2 == 0 and which == 0)
        device = self._first(sort, number, turn, known)
        found, target, made = self._cool(device, sort.levels, each, value, draws)
        return (found if target < value else None), made

    def _refilled(
        self, known: Ints, value: float, target: float, each: float, draws: Words, *, repeated: bool
    ) -> tuple[Ints | None, int]:
        """As ``_anneal``, near a mapping whose islands are filled so that a target can be met, or all in one way."""
        ((_, start, end),), moves = _FILLED.levels, int(self.instance.count * each)
        cooling = Cooling(start, end, moves)
        if repeated and self.refilling.group:
            first = self.refilling.repeated(target, cooling, draws, self.best.stop)
        else:
            first = self.refilling.filled(known, target, cooling, draws, self.best.stop)
        best, made = None, moves
        if first is not None:
            for near, found, more in self._near(first, value, target, _SHARED_TRIES, self.seed):
                made += more
                if found < value:
                    best, value = near, found
        return best, made

    def _first(self, sort: _Sort, number: int, turn: int, known: Ints | None) -> Ints:
        """Where a round begins."""
        if sort.begin == "start":
            return self.starts[number]
        if sort.begin == "loop":
            return self.loops[turn // 2 % len(self.loops)]
        if sort.begin == "best":
            assert known is not None
            return known
        random = np.random.default_rng((self.seed, number))
        return random.permutation(self.instance.devices)[: self.instance.count].astype(np.int32)

    def _cool(self, device: Ints, levels: _Levels, each: float, value: float, draws: Words) -> tuple[Ints, float, int]:
        """The best mapping met from one on, what it is worth, and the moves tried; ``value`` is that of a known one."""
        instance, stop = self.instance, self.best.stop
        moves, made = int(instance.count * each), 0
        device, found = device.copy(), np.empty(instance.count, dtype=np.int32)
        target, scale = math.inf, value if value > 0 else 1.0
        for exponent, start, end in levels:
            cooling = Cooling(start, end, moves)
            target = anneal(
                instance.arrays, instance.near, device, found, scale, exponent, target, cooling, draws, stop
            )
            made += moves
            scale = target if target > 0 else 1.0
            if exponent > 1:
                device = found.copy()
            if stop[0] != 0:
                break
        return found, target, made
