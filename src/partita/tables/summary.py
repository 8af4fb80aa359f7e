"""A result in a few sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partita.run.result import Result
from partita.units import format_time

if TYPE_CHECKING:
    from partita.problems.facets.report import Report


def summary_lines(report: Report[Any, Any, Any], result: Result[Any, Any, Any]) -> list[str]:
    """Objective, bound, gap and status in words."""
    unit = result.problem.unit
    if result.objective is None:
        reason = f": {result.reason}" if result.reason else ""
        return [f"{result.status} ({result.stop_reason}, {result.runtime_s:.2f} s){reason}"]
    bound = "none" if result.bound is None else format_time(result.bound.value, unit)
    gap = "unknown" if result.gap is None else f"{result.gap:.4%}"
    return [
        f"objective {format_time(result.objective, unit)}{report.per}, proven bound {bound}, gap {gap}",
        *report.sentences(result.problem, result.plan, result.evaluation),
        f"{result.status}, stopped: {result.stop_reason}, {result.runtime_s:.2f} s, solver {result.solver}",
    ]


def verdict_lines(report: Report[Any, Any, Any], problem: Any, plan: Any, evaluation: Any) -> list[str]:
    """What a given plan is worth."""
    verdict = "feasible" if evaluation.feasible else "not feasible: " + "; ".join(evaluation.violations)
    return [
        f"objective {format_time(evaluation.objective, problem.unit)}{report.per}",
        *report.sentences(problem, plan, evaluation),
        verdict,
    ]
