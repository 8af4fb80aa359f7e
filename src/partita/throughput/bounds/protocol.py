"""What a throughput bound is."""

from __future__ import annotations

from typing import Protocol

from partita.result import Bound, Monitor
from partita.throughput.problem import ThroughputProblem

__all__ = ["BoundMethod"]


class BoundMethod(Protocol):
    """One way to prove that no plan is better than a value."""

    @property
    def name(self) -> str:
        """Name on the command line."""
        ...

    @property
    def summary(self) -> str:
        """One line: what it uses and what it ignores."""
        ...

    @property
    def valid_for(self) -> str:
        """``free`` if it holds for every split, ``acyclic`` if only for contiguous ones."""
        ...

    def supports(self, problem: ThroughputProblem) -> str | None:
        """None if it applies, otherwise what does not fit."""
        ...

    def bound(self, problem: ThroughputProblem, monitor: Monitor) -> Bound:
        """The bound on the original problem; infinite only if the problem is proven infeasible."""
        ...
