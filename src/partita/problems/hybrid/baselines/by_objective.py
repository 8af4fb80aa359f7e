"""One name for what people do, whether for the time per sample or for a step."""

from __future__ import annotations

from dataclasses import dataclass

from partita.engines.search.monitor import Monitor
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.solvers.protocol import Options, Outcome, Solver


@dataclass(frozen=True)
class ByObjective:
    """A baseline for each objective; None where there is none of that name.

    Attributes
    ----------
    steady, step
        For the time per sample, and for a step; those that are given have the same name.
    """

    steady: Solver | None
    step: Solver | None

    @property
    def name(self) -> str:
        """Of either."""
        return self._any.name

    @property
    def summary(self) -> str:
        """Of the one for a step, if there is one."""
        return self._any.summary

    @property
    def argument(self) -> str:
        """None: neither proves anything."""
        return ""

    @property
    def _any(self) -> Solver:
        found = self.step or self.steady
        assert found is not None
        return found

    def of(self, problem: HybridProblem) -> Solver | None:
        """The one for a problem's objective."""
        return self.steady if problem.training is None else self.step

    def supports(self, problem: HybridProblem, options: Options) -> str | None:
        chosen = self.of(problem)
        if chosen is None:
            return f"{self.name} is not for {'a step' if self.step is None else 'the time per sample'}"
        return chosen.supports(problem, options)

    def solve(self, problem: HybridProblem, options: Options, monitor: Monitor) -> Outcome:
        chosen = self.of(problem)
        assert chosen is not None
        return chosen.solve(problem, options, monitor)
