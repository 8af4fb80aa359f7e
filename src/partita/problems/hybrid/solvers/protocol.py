"""What a hybrid solver is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.problem import HybridProblem
from partita.run.result import Monitor

__all__ = ["HybridOptions", "HybridOutcome", "HybridSolver"]


@dataclass(frozen=True)
class HybridOptions:
    """What a run may use: the seed of random orders, and the most threads."""

    seed: int = 0
    threads: int = 1


@dataclass(frozen=True)
class HybridOutcome:
    """What a solver hands back, before it is evaluated.

    Attributes
    ----------
    plan
        The best plan; None if there is none.
    bound
        Proven lower bound; None if there is none.
    infeasible
        True when it is proven that there is no plan.
    """

    plan: HybridPlan | None
    bound: float | None = None
    infeasible: bool = False


class HybridSolver(Protocol):
    """One way to plan. It is anytime: on ``monitor.stopping`` it returns what it has."""

    @property
    def name(self) -> str:
        """Name on the command line."""
        ...

    @property
    def summary(self) -> str:
        """One line: what it does and what it ignores."""
        ...

    def supports(self, problem: HybridProblem, options: HybridOptions) -> str | None:
        """None if it can work on this, otherwise what does not fit and what to use instead."""
        ...

    def solve(self, problem: HybridProblem, options: HybridOptions, monitor: Monitor) -> HybridOutcome:
        """Run until done, or until ``monitor.stopping``."""
        ...
