"""Tables for people, made with rich."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from partita.problems.throughput.evaluate import Evaluation
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.report.modules import StageModules, shortened
from partita.problems.throughput.sample_latency import pipeline_of
from partita.units import format_bytes, format_time

if TYPE_CHECKING:
    from partita.conductor.comparison import Comparison
    from partita.conductor.pipeline import ThroughputResult

__all__ = ["comparison_table", "memory_table", "stage_table"]


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)


def stage_table(
    problem: ThroughputProblem, evaluation: Evaluation, counts: Sequence[int], modules: Sequence[StageModules]
) -> Table:
    """One row per stage: device, modules, operators, compute, communication, load."""
    unit = problem.unit
    table = _table("Stages")
    table.add_column("#", justify="right")
    table.add_column("device", no_wrap=True)
    named = any(entry.complete or entry.partial for entry in modules)
    if named:
        table.add_column("modules", overflow="fold", ratio=1)
    for column in ("operators", "compute", "communication", "load"):
        table.add_column(column, justify="right", no_wrap=True)
    worst = evaluation.bottleneck
    for number, (stage, count, entry) in enumerate(zip(evaluation.stages, counts, modules, strict=True)):
        cells = [str(number), stage.device]
        if named:
            cells.append(", ".join(shortened(entry)))
        cells += [
            str(count),
            format_time(stage.compute, unit),
            format_time(stage.communication, unit),
            format_time(stage.load, unit) + (" ◀" if number == worst else ""),
        ]
        table.add_row(*cells, style="bold" if number == worst else None)
    return table


def memory_table(evaluation: Evaluation) -> Table:
    """One row per stage: where its memory goes, and the limit."""
    parts = ("operators", "weights", "gradients", "optimizer", "activations", "workspace")
    shown = [part for part in parts if any(getattr(stage.memory, part) for stage in evaluation.stages)]
    table = _table("Memory per device")
    table.add_column("#", justify="right")
    table.add_column("device", no_wrap=True)
    for part in shown:
        table.add_column(part, justify="right", no_wrap=True)
    if any(stage.in_flight > 1 for stage in evaluation.stages):
        table.add_column("in flight", justify="right")
    table.add_column("total", justify="right", no_wrap=True)
    table.add_column("limit", justify="right", no_wrap=True)
    for number, stage in enumerate(evaluation.stages):
        cells = [str(number), stage.device, *(format_bytes(getattr(stage.memory, part)) for part in shown)]
        if any(other.in_flight > 1 for other in evaluation.stages):
            cells.append(str(stage.in_flight))
        table.add_row(*cells, format_bytes(stage.memory.total), format_bytes(stage.memory.limit))
    return table


def comparison_table(problem: ThroughputProblem, result: ThroughputResult, rows: Sequence[Comparison]) -> Table:
    """The plan and the baselines, judged by one evaluator; latency is that of one sample through the full pipeline."""
    table = _table("Compared with")
    table.add_column("split", no_wrap=True)
    for column in ("objective", "against the plan", "latency"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("what it does", overflow="fold", ratio=1)
    objective = result.objective
    if result.plan is not None and result.evaluation is not None and objective is not None:
        latency = format_time(pipeline_of(problem, result.plan, result.evaluation).latency, problem.unit)
        table.add_row("partita", format_time(objective, problem.unit), "", latency, "", style="bold")
    for row in rows:
        if row.evaluation is None:
            table.add_row(row.name, "—", "", "", row.note)
            continue
        ratio = f"{row.evaluation.objective / objective - 1:+.1%} time" if objective else ""
        latency = "" if row.pipeline is None else format_time(row.pipeline.latency, problem.unit)
        text = row.summary if row.evaluation.feasible else f"does not work: {row.note}"
        table.add_row(row.name, format_time(row.evaluation.objective, problem.unit), ratio, latency, text)
    return table
