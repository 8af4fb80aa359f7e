"""The driver of every annealing: rounds, how they grow, and when they end. What a round does, a problem says."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.random import generator
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor


class Length(NamedTuple):
    """Moves of the first round, by what factor they grow after each one (or each ``in_vain``), and the most of them."""

    first: float
    growth: float = 1.0
    most: float = math.inf
    in_vain: bool = False


#: Where every round says its moves itself.
ANY = Length(math.inf)


class AnnealingSearch(ABC):
    """Rounds of annealing on one problem; the same ``seed`` makes the same steps, whatever the clock says.

    Attributes
    ----------
    best
        What the search works on, alone or beside others.
    number, trials
        Rounds made, and moves tried.
    length
        Moves of the next round, where the problem does not say it otherwise.
    random, draws
        Of starts, and of the kernel's moves.
    abreast
        Rounds made at once, which all begin from the same best answer.
    """

    def __init__(
        self, best: Incumbent[Any], seed: int, length: Length = ANY, *, number: int = 0, abreast: int = 1
    ) -> None:
        self.best, self.seed, self.number, self.abreast, self.trials = best, seed, number, abreast, 0
        self.length, self._length = length.first, length
        self.random, self.draws = np.random.default_rng(seed), generator(seed)
        self._steps: Iterator[None] | None = None
        self._before = math.inf

    @property
    def value(self) -> float:
        """Objective of the best answer; infinite for none."""
        return self.best.value

    @property
    def done(self) -> bool:
        """Whether nothing is left to find, or the search is told to stop."""
        return self.best.done

    @abstractmethod
    def round(self, number: int) -> Iterator[None]:
        """The round of a number, with those made at once; it yields where the clock may be looked at."""

    def run(
        self,
        over: Callable[[], bool] = lambda: False,
        *,
        seconds: float = math.inf,
        rounds: float = math.inf,
        patience: float = math.inf,
    ) -> bool:
        """Make rounds until ``over``, for about so long, so many more, or until so many in a row were in vain.

        What ended within a round goes on there with the next call. Returns whether the answer is better than before.
        """
        clock = Monitor(None if math.isinf(seconds) else seconds)
        start, last, vain = self.value, self.number + rounds, 0
        while not (self.done or over() or clock.stopping):
            if self._steps is None:
                if self.number >= last or vain >= patience:
                    break
                self._before, self._steps = self.value, self.round(self.number)
            if next(self._steps, "ended") is None:
                continue
            self._steps = None
            self.number += self.abreast
            better = self.value < self._before
            vain = 0 if better else vain + self.abreast
            if not (better and self._length.in_vain):
                self.length = min(self.length * self._length.growth, self._length.most)
        return self.value < start

    def cool(self, cooling: Cooling, most: int, anneal: Callable[[Cooling], object]) -> Iterator[None]:
        """Steps of one cooling, each of at most so many moves by ``anneal``."""
        for part in cooling.parts(most):
            anneal(part)
            self.trials += part.trials
            yield
