"""What planning and solving answer: one class for all problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from partita.engines.search.result import (
    Bound,
    EvaluationT,
    PlanT,
    ProblemT,
    Result,
    Rival,
    Statistics,
    Status,
    StopReason,
)

if TYPE_CHECKING:
    from partita.nouns.cluster import Cluster
    from partita.nouns.graph import Graph
    from partita.problems.facets.model import ModelPlan


@dataclass(frozen=True, repr=False)
class Answer(Generic[ProblemT, PlanT, EvaluationT]):
    """A plan with what is proven about it, whatever the problem."""

    result: Result[ProblemT, PlanT, EvaluationT]
    model_plan: ModelPlan[ProblemT] | None = None

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
        """The plan's objective, in the problem's unit."""
        return self.result.objective

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
    def baselines(self) -> Sequence[Rival]:
        """What people do by hand, judged by the same evaluator."""
        return () if self.model_plan is None else self.model_plan.baselines

    @property
    def graph(self) -> Graph | None:
        """The model; None of a stated problem."""
        return None if self.model_plan is None else self.model_plan.graph

    @property
    def cluster(self) -> Cluster | None:
        """The devices; None of a stated problem."""
        return None if self.model_plan is None else self.model_plan.cluster


#: An answer about any problem.
AnyAnswer: TypeAlias = Answer[Any, Any, Any]
