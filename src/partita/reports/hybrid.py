"""A hybrid plan as a table."""

from __future__ import annotations

from collections import Counter

from rich import box
from rich.table import Table

from partita.hybrid.evaluate import HybridEvaluation
from partita.hybrid.plan import HybridPlan
from partita.hybrid.problem import HybridProblem
from partita.units import format_bytes, format_time

__all__ = ["hybrid_table"]


def hybrid_table(problem: HybridProblem, plan: HybridPlan, evaluation: HybridEvaluation) -> Table:
    """One row per stage: layers, degrees, how often each configuration is chosen, time and memory."""
    title = f"Stages: {plan.devices} of {problem.devices} devices, {plan.microbatches} microbatches in flight"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("#", "layers", "data", "tensor"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("configurations", overflow="fold", ratio=1)
    for column in ("compute", "transfer", "weight sync", "time per sample", "memory"):
        table.add_column(column, justify="right", no_wrap=True)
    worst = max(range(len(plan.stages)), key=lambda i: evaluation.stages[i].time_per_sample)
    for number, (stage, worth) in enumerate(zip(plan.stages, evaluation.stages, strict=True)):
        chosen = Counter(stage.configurations.values()).most_common()
        table.add_row(
            str(number),
            str(len(stage.operators)),
            str(stage.data_parallel),
            str(stage.tensor_parallel),
            ", ".join(f"{count} {name}" for name, count in chosen),
            format_time(worth.compute, problem.unit),
            format_time(worth.transfer, problem.unit),
            format_time(worth.weight_sync, problem.unit),
            format_time(worth.time_per_sample, problem.unit) + (" ◀" if number == worst else ""),
            format_bytes(worth.memory_bytes),
            style="bold" if number == worst else None,
        )
    return table
