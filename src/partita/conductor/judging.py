"""What a plan is worth, whichever problem it answers."""

from __future__ import annotations

from typing import overload

from partita.errors import InputError
from partita.problems.hybrid.evaluate import HybridEvaluation
from partita.problems.hybrid.evaluate import evaluate as evaluate_hybrid
from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.throughput.evaluate import Evaluation
from partita.problems.throughput.evaluate import evaluate as evaluate_throughput
from partita.problems.throughput.plan import Plan
from partita.problems.throughput.problem import ThroughputProblem

__all__ = ["evaluate"]


@overload
def evaluate(problem: ThroughputProblem, plan: Plan) -> Evaluation: ...


@overload
def evaluate(problem: HybridProblem, plan: HybridPlan) -> HybridEvaluation: ...


def evaluate(problem: ThroughputProblem | HybridProblem, plan: Plan | HybridPlan) -> Evaluation | HybridEvaluation:
    """Objective and feasibility of a plan, from the problem alone.

    Raises
    ------
    InputError
        If the plan is not a plan of this problem.
    """
    if isinstance(problem, HybridProblem) and isinstance(plan, HybridPlan):
        return evaluate_hybrid(problem, plan)
    if isinstance(problem, ThroughputProblem) and isinstance(plan, Plan):
        return evaluate_throughput(problem, plan)
    raise InputError(f"a {type(plan).__name__} is not a plan of a {type(problem).__name__}")
