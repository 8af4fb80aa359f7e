"""What an answer is worth: the one judge of all problems.

What contradicts the evaluator or a proof raises ``DisagreementError`` in every function here: it is a defect.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from partita.engines.search.incumbent import agreed
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound, Event, Result, Rival, Statistics, Status, StopReason, relative_gap
from partita.ground.errors import DisagreementError
from partita.ground.rounding import OPTIMALITY_GAP, clearly_below
from partita.problems import kind_of
from partita.problems.kind import AnyResult, SearchOptions, Solver, argument_of
from partita.problems.outcome import Outcome


def evaluate(problem: Any, plan: Any) -> Any:
    """Objective and feasibility of a plan, from the problem alone.

    Raises
    ------
    InputError
        If the plan is not a plan of this problem.
    """
    return kind_of(problem).evaluate(problem, plan)


def judge(
    problem: Any, solver: Solver[Any, Any, Any], outcome: Outcome[Any], options: Any, monitor: Monitor, *, trusted: bool
) -> AnyResult:
    """Evaluate what a solver hands back, and say only what is proven.

    A plan that fails is a defect of a solver that is ``trusted``; a baseline's may fail, and is completed first.
    """
    kind = kind_of(problem)
    scope = options.scope if outcome.scope is None else outcome.scope
    # What is proven of a reduction that loses plans, or of other plans than those asked for, is no proof here.
    holds = outcome.lossless and options.covers(scope)
    bound = None
    # Where there is no plan, nothing is left to bound.
    if holds and outcome.bound is not None and not outcome.infeasible:
        argument = kind.argument(outcome.proven_by) or argument_of(solver)
        bound = Bound(outcome.bound, solver.name, scope, monitor.elapsed_s, argument, outcome.certificate)
    plan, evaluation, reason = outcome.plan, None, outcome.reason
    status = Status.INFEASIBLE if outcome.infeasible and holds and plan is None else Status.UNKNOWN
    if plan is not None:
        if not trusted:
            plan = kind.complete(problem, plan)
        evaluation = kind.evaluate(problem, plan)
        wrong = None if evaluation.feasible else evaluation.violations[0]
        wrong = wrong or options.unkept(evaluation)
        if wrong is not None and trusted:
            raise DisagreementError(f"solver {solver.name} returned a plan that fails: {wrong}")
        if wrong is not None:
            plan, evaluation, reason = None, None, wrong
        else:
            if outcome.infeasible and holds:
                raise DisagreementError(f"solver {solver.name} returned a plan, and says that there is none")
            bound, status = proven(evaluation.objective, bound)
    return Result(
        problem=problem,
        plan=plan,
        evaluation=evaluation,
        bound=bound,
        status=status,
        stop_reason=monitor.stop_reason(proved=status in (Status.OPTIMAL, Status.INFEASIBLE)),
        solver=solver.name,
        seed=options.seed,
        runtime_s=monitor.elapsed_s,
        reason=reason,
        argument=argument_of(solver) if status is Status.INFEASIBLE else "",
        statistics=monitor.statistics,
    )


def judge_stated(problem: Any, plan: Any, options: Any) -> AnyResult:
    """A result for a plan that was asked for, without a search: what it is worth, or what it breaks.

    Raises
    ------
    InputError
        If it is not a plan of the problem.
    """
    evaluation = kind_of(problem).evaluate(problem, plan)
    return Result(
        problem=problem,
        plan=plan,
        evaluation=evaluation,
        bound=None,
        status=Status.FEASIBLE if evaluation.feasible else Status.INFEASIBLE,
        stop_reason=StopReason.FINISHED,
        solver="stated",
        seed=options.seed,
        runtime_s=0.0,
        reason="; ".join(evaluation.violations),
    )


def proven(objective: float, bound: Bound | None) -> tuple[Bound | None, Status]:
    """The bound beside an objective, rounding taken off, and what the two prove."""
    if bound is None:
        return None, Status.FEASIBLE
    bound = bound.changed(value=agreed(bound.value, objective, bound.method))
    gap = relative_gap(objective, bound.value)
    return bound, Status.OPTIMAL if gap is not None and gap <= OPTIMALITY_GAP else Status.FEASIBLE


def judge_plan(problem: Any, name: str, summary: str, plan: Any, runtime_s: float = 0.0, note: str = "") -> Rival:
    """A row for a plan from anywhere, such as an expert's.

    Raises
    ------
    InputError
        If it is not a plan of the problem.
    """
    if plan is None:
        return Rival(name, summary, runtime_s=runtime_s, note=note or "it finds no plan that fits")
    evaluation = kind_of(problem).evaluate(problem, plan)
    return Rival(name, summary, plan, evaluation, runtime_s, "" if evaluation.feasible else evaluation.violations[0])


def best_of(rows: Sequence[Rival], options: SearchOptions) -> Rival | None:
    """The row with the best feasible plan that keeps what was asked for, the first of equal ones; None for none."""
    kept = [row for row in rows if row.feasible and options.unkept(row.evaluation) is None]
    return min(kept, key=lambda row: row.evaluation.objective, default=None)


def adopt(result: AnyResult, row: Rival, options: SearchOptions) -> AnyResult:
    """The result with the plan of a row, and what the bound says about that."""
    value = row.evaluation.objective
    if result.status is Status.INFEASIBLE:
        raise DisagreementError(f"{result.solver} proved that there is no plan, but {row.name} has one: {value!r}")
    bound, status = proven(value, result.bound)
    proof = None if bound is None else bound.value
    event = Event(result.runtime_s, value, proof, f"plan of {row.name} adopted", result.problem.unit)
    return dataclasses.replace(
        result,
        plan=options.marked(row.plan),
        evaluation=row.evaluation,
        bound=bound,
        status=status,
        reason="",
        statistics=Statistics([*result.statistics.events, event], dict(result.statistics.counters)),
    )


def adopt_better(result: AnyResult, rows: Sequence[Rival], options: SearchOptions) -> AnyResult:
    """The result, with the best plan of the rows in place of its own where that is better.

    Only a run that was stopped early can be beaten; a line in the statistics says by what. If Ctrl-C came while the
    rows were made, that is why the result stopped.
    """
    if any(row.interrupted for row in rows):
        result = dataclasses.replace(result, stop_reason=StopReason.INTERRUPTED)
    chosen = best_of(rows, options)
    if chosen is None:
        return result
    adopted = adopt(result, chosen, options)
    if result.objective is not None and chosen.evaluation.objective >= clearly_below(result.objective):
        return result
    return adopted


def with_bound(result: AnyResult, bound: Bound | None) -> AnyResult:
    """The result with another bound, where that is tighter."""
    if bound is None or result.status is Status.INFEASIBLE:
        return result
    if result.bound is not None and result.bound.value >= bound.value:
        return result
    if result.objective is None:
        return dataclasses.replace(result, bound=bound)
    tighter, status = proven(result.objective, bound)
    reason = StopReason.PROVED if status is Status.OPTIMAL else result.stop_reason
    return dataclasses.replace(result, bound=tighter, status=status, stop_reason=reason)


def explained(problem: Any, bound: Bound) -> Bound:
    """A bound with the argument by which it holds, and a certificate, made when it is read, where there is one."""
    kind = kind_of(problem)
    if not bound.argument:
        bound = bound.changed(argument=kind.argument(bound.method))
    if bound.certificate is None:
        bare = bound
        bound = bound.changed(certificate=lambda: kind.certify(problem, bare))
    return bound
