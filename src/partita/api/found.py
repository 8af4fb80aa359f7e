"""What every answer has: the run that found it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic

from partita.engines.search.result import (
    Bound,
    EvaluationT,
    PlanT,
    ProblemT,
    Result,
    Statistics,
    Status,
    StopReason,
)


@dataclass(frozen=True, repr=False)
class Found(Generic[ProblemT, PlanT, EvaluationT]):
    """A result, whose parts can be asked for one by one."""

    result: Result[ProblemT, PlanT, EvaluationT]

    @property
    def _stated(self) -> Any:
        """The problem, as what all problems are."""
        return self.result.problem

    @property
    def problem(self) -> ProblemT:
        """What was solved."""
        return self.result.problem

    @property
    def plan(self) -> PlanT | None:
        """The best plan; None if there is none."""
        return self.result.plan

    @property
    def evaluation(self) -> EvaluationT | None:
        """What the plan is worth, by the problem's evaluator; None without a plan."""
        return self.result.evaluation

    @property
    def objective(self) -> float | None:
        """The plan's objective, in ``unit``."""
        return self.result.objective

    @property
    def unit(self) -> str:
        """Time unit of objective and bound."""
        return str(self._stated.unit)

    @property
    def bound(self) -> Bound | None:
        """What no plan can beat; None if nothing is proven."""
        return self.result.bound

    @property
    def gap(self) -> float | None:
        """(objective − bound) / objective."""
        return self.result.gap

    @property
    def status(self) -> Status:
        """What is proven."""
        return self.result.status

    @property
    def stop_reason(self) -> StopReason:
        """Why the run ended."""
        return self.result.stop_reason

    @property
    def statistics(self) -> Statistics:
        """History and counters of the run."""
        return self.result.statistics

    @property
    def runtime_s(self) -> float:
        """Wall time."""
        return self.result.runtime_s

    @property
    def solver(self) -> str:
        """What ran."""
        return self.result.solver

    @property
    def seed(self) -> int:
        """From which seed."""
        return self.result.seed

    @property
    def reason(self) -> str:
        """For an infeasible problem what is missing, otherwise empty."""
        return self.result.reason

    @property
    def argument(self) -> str:
        """For an infeasible problem by which argument that is proven, otherwise empty."""
        return self.result.argument
