"""Tables for people, made with rich."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from partita.documents.tables.modules import PartModules, shortened
from partita.documents.tables.text import new_table
from partita.ground.units import format_bytes, format_time
from partita.problems.throughput.evaluation import Evaluation, Memory
from partita.problems.throughput.problem import ThroughputProblem


def stage_table(
    problem: ThroughputProblem, evaluation: Evaluation, counts: Sequence[int], modules: Sequence[PartModules]
) -> Table:
    """One row per stage: device, modules, operators, compute, communication, load."""
    unit = problem.unit
    named = any(entry.complete or entry.partial for entry in modules)
    figures = ("operators", "compute", "communication", "load")
    table = _device_table("Stages", figures, words="modules" if named else "")
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


def _device_table(title: str, figures: Sequence[str], words: str = "") -> Table:
    """An empty table with a row for each device in use."""
    table = new_table(title)
    table.add_column("#", justify="right")
    table.add_column("device", no_wrap=True)
    if words:
        table.add_column(words, overflow="fold", ratio=1)
    for column in figures:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def memory_table(evaluation: Evaluation) -> Table:
    """One row per stage: where its memory goes, and the limit."""
    shown = [part for part in Memory().parts if any(stage.memory.parts[part] for stage in evaluation.stages)]
    several = ("in flight",) if any(stage.in_flight > 1 for stage in evaluation.stages) else ()
    table = _device_table("Memory per device", (*shown, *several, "total", "limit"))
    for number, stage in enumerate(evaluation.stages):
        sizes = (format_bytes(getattr(stage.memory, part)) for part in (*shown, "total", "limit"))
        cells = [str(number), stage.device, *sizes]
        cells[-2:-2] = [str(stage.in_flight)] if several else []
        table.add_row(*cells)
    return table
