"""Recipes beside a hybrid plan: as a table and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.report.limits import device_time, explain_slower
from partita.units import format_time

if TYPE_CHECKING:
    from partita.conductor.hybrid_comparison import HybridRow
    from partita.conductor.hybrid_pipeline import HybridResult
    from partita.problems.hybrid.step_time import StepTime

__all__ = ["degrees_text", "hybrid_comparison_table", "recipe_documents", "stage_degrees", "step_document"]


def degrees_text(plan: HybridPlan) -> str:
    """Stages and their degrees in short: ``8 stages: 7 × d4·t2, d8·t1``."""
    runs: list[list[Any]] = []
    for stage in plan.stages:
        text = f"d{stage.data_parallel}·t{stage.tensor_parallel}"
        if runs and runs[-1][0] == text:
            runs[-1][1] += 1
        else:
            runs.append([text, 1])
    shown = [text if count == 1 else f"{count} × {text}" for text, count in runs]
    if len(shown) > 4:
        shown = [*shown[:2], "…", shown[-1]]
    count = len(plan.stages)
    return f"{count} stage{'s' if count > 1 else ''}: {', '.join(shown)}"


def hybrid_comparison_table(result: HybridResult, step: StepTime | None, rows: Sequence[HybridRow]) -> Table:
    """The plan and the recipes, judged by one evaluator, with what a slower one spends its time on."""
    problem = result.problem
    table = Table(title="Compared with", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("layout", overflow="fold")
    table.add_column("stages and degrees", overflow="fold")
    for column in ("per sample", "against plan", "with bubble", "bubble"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("why", overflow="fold", ratio=1)
    mine = None
    if result.plan is not None and result.evaluation is not None:
        mine = device_time(problem, result.plan, result.evaluation)
        table.add_row(
            "partita",
            degrees_text(result.plan),
            format_time(result.evaluation.objective, problem.unit),
            "",
            "" if step is None else format_time(step.per_sample, problem.unit),
            "" if step is None else f"{step.bubble:.0%}",
            "",
            style="bold",
        )
    for row in rows:
        if row.plan is None or row.evaluation is None or row.step is None:
            table.add_row(row.name, "—", "—", "", "", "", f"does not fit or apply: {row.note}")
            continue
        objective = result.objective
        why = explain_slower(device_time(problem, row.plan, row.evaluation), mine) if mine is not None else row.summary
        table.add_row(
            row.name,
            degrees_text(row.plan),
            format_time(row.evaluation.objective, problem.unit),
            f"{row.evaluation.objective / objective - 1:+.1%}" if objective else "",
            format_time(row.step.per_sample, problem.unit),
            f"{row.step.bubble:.0%}",
            why if row.feasible else f"does not work: {row.note}",
        )
    return table


def step_document(step: StepTime | None) -> dict[str, Any] | None:
    """A step as plain values, in the problem's unit of time."""
    if step is None:
        return None
    return {
        "microbatches": step.microbatches,
        "time": step.step,
        "time_per_sample": step.per_sample,
        "pipeline": step.pipeline,
        "weight_sync": step.weight_sync,
        "update": step.update,
        "bubble": step.bubble,
    }


def recipe_documents(result: HybridResult, rows: Sequence[HybridRow]) -> list[dict[str, Any]]:
    """Rows as plain values; the objective of a layout that does not fit is null."""
    problem = result.problem
    mine = None
    if result.plan is not None and result.evaluation is not None:
        mine = device_time(problem, result.plan, result.evaluation)
    found = []
    for row in rows:
        spent = None
        if row.plan is not None and row.evaluation is not None:
            spent = device_time(problem, row.plan, row.evaluation)
        found.append(
            {
                "name": row.name,
                "summary": row.summary,
                "objective": row.evaluation.objective if row.evaluation is not None and row.feasible else None,
                "feasible": row.feasible,
                "reason": row.note or None,
                "runtime_s": row.runtime_s,
                "stages": None if row.plan is None else stage_degrees(row.plan),
                "step": step_document(row.step),
                "device_time": None if spent is None else spent.parts(),
                "binding": None if spent is None else spent.binding,
                "why": None if spent is None or mine is None else explain_slower(spent, mine) or None,
            }
        )
    return found


def stage_degrees(plan: HybridPlan) -> list[dict[str, int]]:
    """Layers and degrees of every stage."""
    return [
        {
            "layers": len(stage.operators),
            "data_parallel": stage.data_parallel,
            "tensor_parallel": stage.tensor_parallel,
        }
        for stage in plan.stages
    ]
