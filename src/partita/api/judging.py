"""What a plan is worth, what no plan can beat, and whether an answer holds out."""

from __future__ import annotations

from pathlib import Path

from partita.api.answer import Answer
from partita.checker.document import Verdict
from partita.conductor.bound import proof
from partita.conductor.check import check as check_found
from partita.conductor.judge import evaluate as evaluate_plan
from partita.engines.search.result import Bound, PlanEvaluation, Result
from partita.ground.collecting import collecting_rarely
from partita.ground.errors import InputError
from partita.problems import kind_of
from partita.problems.importers import given_problem
from partita.problems.kind import Stated
from partita.problems.planned import read_plan


def evaluate(problem: Stated | str | Path, plan: object) -> PlanEvaluation:
    """Objective and feasibility of a plan, from the problem alone.

    Parameters
    ----------
    problem
        The problem, or the path of its file.
    plan
        A plan of it, an answer, or the path of a result file or of another file that its plans are written in.

    Returns
    -------
    PlanEvaluation
        With the fields of the problem's own.

    Raises
    ------
    FormatError
        If a file is malformed.
    InputError
        If the plan is not a plan of this problem, or a file cannot be read.
    """
    stated = given_problem(problem)
    if isinstance(plan, str | Path):
        plan = read_plan(plan, stated)
    elif isinstance(plan, Answer | Result):
        plan = plan.plan
    kind = kind_of(stated)
    if not isinstance(plan, kind.plan):
        raise InputError(f"{plan!r:.60} is no plan of a {kind.name} problem; give an answer with a plan, or its file")
    evaluation: PlanEvaluation = evaluate_plan(stated, plan)
    return evaluation


@collecting_rarely()
def bound(problem: Stated | str | Path, method: str | None = None, *, time_limit_s: float | None = 60.0) -> Bound:
    """A proven lower bound on the best objective.

    Parameters
    ----------
    problem
        The problem, or the path of its file.
    method
        A bound's name, or a solver's that proves one; None takes all that fit together.
    time_limit_s
        Wall time; the bound reached by then is returned.

    Raises
    ------
    InputError
        If there is no such method, it proves nothing for this problem, or the problem is infeasible.
    """
    return proof(given_problem(problem), method, time_limit_s=time_limit_s).best


def check(
    result: Result[object, object, PlanEvaluation] | str | Path, problem: Stated | str | Path | None = None
) -> Verdict:
    """Whether the plan of a result keeps every rule and is worth what it says, and whether its bound is proven.

    Parameters
    ----------
    result
        An answer, or the path of a result file.
    problem
        The problem, or the path of its file, if the result file does not hold it.

    Returns
    -------
    Verdict
        ``verified`` is true where plan and bound are; what is wrong or not covered is said of each.

    Raises
    ------
    FormatError
        If the file is no result file, or the problem's is malformed.
    InputError
        If a file cannot be read, or nobody says what the problem is.
    """
    if isinstance(result, Answer):
        return result.check()
    return check_found(result, problem)
