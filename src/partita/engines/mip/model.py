"""A mixed-integer program as the backends take it, and what they answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from partita.engines.search.result import Status

Floats = npt.NDArray[np.float64]


class Minimised(Protocol):
    """What is minimised: a point has a value."""

    def value(self, values: Floats) -> float:
        """The objective at a point."""


@dataclass
class MixedProgram:
    """Minimise a linear function of whole and continuous variables under linear rows.

    Variables are numbered from 0 in the order they are added. A row is ``lower <= Σ coefficient·variable <= upper``;
    either side may be infinite.
    """

    #: Bounds, kind and objective coefficient of each variable.
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    binary: list[bool] = field(default_factory=list)  #: Whether it is whole: 0 or 1, or a count.
    cost: list[float] = field(default_factory=list)
    #: (variables, coefficients, lower, upper) of each row.
    rows: list[tuple[list[int], list[float], float, float]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Number of variables."""
        return len(self.cost)

    def add_binary(self, cost: float = 0.0) -> int:
        """A new variable that is 0 or 1."""
        return self._add(0.0, 1.0, True, cost)

    def add_count(self, most: int, cost: float = 0.0) -> int:
        """A new variable that is a whole number, 0 to ``most``."""
        return self._add(0.0, float(most), True, cost)

    def add_continuous(self, lower: float = 0.0, upper: float = math.inf, cost: float = 0.0) -> int:
        """A new continuous variable."""
        return self._add(lower, upper, False, cost)

    def _add(self, lower: float, upper: float, binary: bool, cost: float) -> int:
        self.lower.append(lower)
        self.upper.append(upper)
        self.binary.append(binary)
        self.cost.append(cost)
        return len(self.cost) - 1

    def add_row(self, terms: Iterable[tuple[int, float]], lower: float = -math.inf, upper: float = math.inf) -> None:
        """A new row; terms of the same variable are added up, zeros dropped."""
        merged: dict[int, float] = {}
        for variable, coefficient in terms:
            merged[variable] = merged.get(variable, 0.0) + coefficient
        kept = {v: c for v, c in merged.items() if c}
        self.rows.append((list(kept), list(kept.values()), lower, upper))

    def fix(self, variable: int, value: float) -> None:
        """Give a variable its value."""
        self.lower[variable] = self.upper[variable] = value

    def value(self, values: Floats) -> float:
        """The objective at a point."""
        return float(np.dot(self.cost, values))


@dataclass(frozen=True)
class ProgramResult:
    """What a backend answers."""

    #: ``optimal``: ``values`` are optimal up to the gap asked for; ``feasible``: they are a solution; ``infeasible``:
    #: there is none; ``unknown``: the run ended before anything was found.
    status: Status
    values: Floats | None  #: The best solution; None if there is none.
    objective: float  #: Its objective.
    bound: float  #: Proven lower bound; minus infinity for none, infinity if infeasible.


#: Nothing found, nothing proven.
UNKNOWN = ProgramResult(Status.UNKNOWN, None, math.inf, -math.inf)


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Callbacks:
    """How a run talks while it goes on; all may be called from another thread."""

    stop: Callable[[], bool] = _never  #: Polled often; true ends the run with what it has.
    #: Called with every better solution and its objective.
    on_incumbent: Callable[[Floats, float], object] | None = None
    on_bound: Callable[[float], object] | None = None  #: Called with better lower bounds.
    #: Asked for a solution found elsewhere, with the objective of the best one inside; None if it has none better.
    #: Backends that cannot take solutions on the way never ask.
    better: Callable[[float], Floats | None] | None = None


#: Nothing is said.
QUIET = Callbacks()
