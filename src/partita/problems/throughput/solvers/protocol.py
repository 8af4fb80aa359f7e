"""What a throughput solver is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from partita.problems.throughput.plan import Contiguity, Plan
from partita.problems.throughput.problem import ThroughputProblem
from partita.run.result import Monitor

__all__ = ["Options", "Outcome", "Solver"]


@dataclass(frozen=True)
class Options:
    """What a run may use.

    Attributes
    ----------
    contiguity
        The splits to search.
    seed
        Same seed, same answer, when the clock is not what stops the run.
    threads
        Most threads to use at once.
    """

    contiguity: Contiguity = "acyclic"
    seed: int = 0
    threads: int = 2


@dataclass(frozen=True)
class Outcome:
    """What a solver hands back, before it is evaluated.

    Attributes
    ----------
    plan
        The best plan; None if there is none.
    bound
        Proven lower bound on the original problem for the contiguity asked for, None if there is none.
    infeasible
        True when it is proven that there is no plan.
    """

    plan: Plan | None
    bound: float | None = None
    infeasible: bool = False


class Solver(Protocol):
    """One way to split a problem. It is anytime: on ``monitor.stopping`` it returns what it has."""

    @property
    def name(self) -> str:
        """Name on the command line."""
        ...

    @property
    def summary(self) -> str:
        """One line: what it does and what it ignores."""
        ...

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        """None if it can work on this, otherwise what does not fit and what to use instead."""
        ...

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        """Run until done, or until ``monitor.stopping``."""
        ...
