"""What a recipe is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.problem import HybridProblem
from partita.run.result import Monitor

__all__ = ["Recipe", "RecipeOptions", "RecipeOutcome"]


@dataclass(frozen=True)
class RecipeOptions:
    """What a recipe may know beyond the problem.

    Attributes
    ----------
    machine_devices
        Devices of one machine, where tensor parallelism is cheap; 8 where it is not known.
    seed, threads
        As for the solvers.
    """

    machine_devices: int = 8
    seed: int = 0
    threads: int = 1


@dataclass(frozen=True)
class RecipeOutcome:
    """What a recipe hands back, before it is evaluated.

    Attributes
    ----------
    plan
        Its plan; None if it makes none.
    reason
        Why there is none: what does not apply, or what is missing.
    """

    plan: HybridPlan | None
    reason: str = ""


class Recipe(Protocol):
    """A usual way to lay out training by hand, or a planner that does without one kind of parallelism."""

    @property
    def name(self) -> str:
        """Name in tables."""
        ...

    @property
    def summary(self) -> str:
        """One line: what it does."""
        ...

    def plan(self, problem: HybridProblem, options: RecipeOptions, monitor: Monitor) -> RecipeOutcome:
        """Its best plan within the problem's limits; on ``monitor.stopping`` the best so far."""
        ...
