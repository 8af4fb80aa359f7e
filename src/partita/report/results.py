"""A result in a few sentences, and plans from elsewhere beside it in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from partita.documents.tables.text import new_table
from partita.engines.search.result import Result, Rival, Status, StopReason
from partita.ground.units import format_time
from partita.problems.facets.report import Reporting

#: What rows of a comparison can be ranked by.
Rank = Literal["objective", "step"]

if TYPE_CHECKING:
    from rich.table import Table


def summary_lines(report: Reporting[Any, Any, Any], result: Result[Any, Any, Any]) -> list[str]:
    """Objective, bound, gap and status in words."""
    unit = result.problem.unit
    if result.objective is None:
        reason = f": {result.reason}" if result.reason else ""
        if result.status is Status.UNKNOWN:
            time_up = result.stop_reason is StopReason.TIME_LIMIT
            more = "; give it more time" if time_up else "; another solver may find one"
            reason = f"{reason}: no plan was found, and none is proven not to exist{more}"
        return [f"{result.status} ({result.stop_reason}, {result.runtime_s:.2f} s){reason}"]
    bound = "none" if result.bound is None else format_time(result.bound.value, unit)
    gap = "unknown" if result.gap is None else f"{result.gap:.4%}"
    return [
        f"objective {format_time(result.objective, unit)}{report.per(result.problem)}, proven bound {bound}, gap {gap}",
        *report.sentences(result.problem, result.plan, result.evaluation),
        f"{result.status}, stopped: {result.stop_reason}, {result.runtime_s:.2f} s, solver {result.solver}",
    ]


def verdict_lines(report: Reporting[Any, Any, Any], problem: Any, plan: Any, evaluation: Any) -> list[str]:
    """What a given plan is worth."""
    verdict = "feasible" if evaluation.feasible else "not feasible: " + "; ".join(evaluation.violations)
    return [
        f"objective {format_time(evaluation.objective, problem.unit)}{report.per(problem)}",
        *report.sentences(problem, plan, evaluation),
        verdict,
    ]


def worth(report: Reporting[Any, Any, Any], problem: Any, row: Rival, by: Rank = "objective") -> float | None:
    """What a row is ranked by: its objective, or the time of its step as it runs; None where it has none."""
    if row.evaluation is None:
        return None
    if by == "step":
        return report.step(problem, row.plan, row.evaluation)
    return float(row.evaluation.objective)


def ranked(report: Reporting[Any, Any, Any], problem: Any, rows: Sequence[Rival], by: Rank) -> list[Rival]:
    """Rows from the best to the worst; those that do not work come after them, then those without a plan."""

    def key(row: Rival) -> tuple[int, float]:
        found = worth(report, problem, row, by)
        return (2, 0.0) if found is None else (0 if row.feasible else 1, found)

    return sorted(rows, key=key)


def comparison_table(
    report: Reporting[Any, Any, Any], result: Result[Any, Any, Any], rows: Sequence[Rival], by: Rank = "objective"
) -> Table:
    """The plan and the rows, judged by one evaluator, with the problem's own figures.

    ``by`` says what of a row is set against the plan's.
    """
    problem = result.problem
    own = Rival("partita", "", result.plan, result.evaluation)
    mine, less = worth(report, problem, own, by), "step" if by == "step" else report.less(problem)
    shown = [*(() if own.evaluation is None else (own,)), *rows]
    figures = [{} if row.evaluation is None else report.figures(problem, row.plan, row.evaluation) for row in shown]
    titles = list(dict.fromkeys(title for found in figures for title in found))
    table = new_table("Compared with")
    table.add_column("plan", overflow="fold")
    for title in ("objective", "against the plan"):
        table.add_column(title, justify="right", no_wrap=True)
    for title in titles:
        table.add_column(title, justify="right", overflow="fold")
    table.add_column("what it does", overflow="fold", ratio=1)
    for row, found in zip(shown, figures, strict=True):
        if row.evaluation is None:
            table.add_row(row.name, "—", "", *("" for _ in titles), row.note)
            continue
        ratio, text = "", ""
        if row is not own:
            other = worth(report, problem, row, by)
            ratio = f"{other / mine - 1:+.1%} {less}" if mine and other is not None else ""
            text = report.why(result, row) if row.feasible else f"does not work: {row.note}"
        cells = (
            format_time(row.evaluation.objective, problem.unit),
            ratio,
            *(found.get(title, "") for title in titles),
        )
        table.add_row(row.name, *cells, text, style="bold" if row is own else None)
    return table
