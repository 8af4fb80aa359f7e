"""A hybrid plan as a table."""

from __future__ import annotations

from collections import Counter

from rich.table import Table

from partita.problems.hybrid.evaluate import HybridEvaluation
from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.problem import HybridProblem
from partita.tables.text import new_table
from partita.units import format_bytes, format_time

__all__ = ["hybrid_table", "link_table", "slowest_stage"]


def slowest_stage(evaluation: HybridEvaluation) -> int | None:
    """Number of the stage that the objective is the time of; None where a link between machines is slower."""
    times = [stage.time_per_sample for stage in evaluation.stages]
    return times.index(max(times)) if max(times) >= evaluation.objective else None


def link_table(problem: HybridProblem, plan: HybridPlan, evaluation: HybridEvaluation) -> Table | None:
    """One row per machine group: its machines, stages, and how long their links are busy; None without machines."""
    if problem.hierarchy is None:
        return None
    title = f"Links between machines: {plan.machines} of {problem.machines} machines"
    table = new_table(title)
    for column in ("group", "machines", "stages", "transfer", "weight sync", "per sample"):
        table.add_column(column, justify="right", no_wrap=True)
    binds = slowest_stage(evaluation) is None
    for number, link in enumerate(evaluation.machine_groups):
        held = [place for place, stage in enumerate(plan.stages) if stage.machine_group == number]
        slowest = binds and link.time_per_sample >= evaluation.objective
        table.add_row(
            str(number),
            str(link.machines),
            str(held[0]) if len(held) == 1 else f"{held[0]}–{held[-1]}",
            format_time(link.transfer, problem.unit),
            format_time(link.weight_sync, problem.unit),
            format_time(link.time_per_sample, problem.unit) + (" ◀" if slowest else ""),
            style="bold" if slowest else None,
        )
    return table


def hybrid_table(problem: HybridProblem, plan: HybridPlan, evaluation: HybridEvaluation) -> Table:
    """One row per stage: layers, degrees, how often each configuration is chosen, time and memory."""
    title = f"Stages: {plan.devices} of {problem.devices} devices, {plan.microbatches} microbatches in flight"
    table = new_table(title)
    columns = ["#", "layers", "data", "tensor"]
    if problem.hierarchy is not None:
        columns.append("machines")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("configurations", overflow="fold", ratio=1)
    for column in ("compute", "transfer", "weight sync", "time per sample", "memory"):
        table.add_column(column, justify="right", no_wrap=True)
    worst = slowest_stage(evaluation)
    for number, (stage, worth) in enumerate(zip(plan.stages, evaluation.stages, strict=True)):
        chosen = Counter(stage.configurations.values()).most_common()
        table.add_row(
            str(number),
            str(len(stage.operators)),
            str(stage.data_parallel),
            str(stage.tensor_parallel),
            *([] if problem.hierarchy is None else [str(stage.machines)]),
            ", ".join(f"{count} {name}" for name, count in chosen),
            format_time(worth.compute, problem.unit),
            format_time(worth.transfer, problem.unit),
            format_time(worth.weight_sync, problem.unit),
            format_time(worth.time_per_sample, problem.unit) + (" ◀" if number == worst else ""),
            format_bytes(worth.memory_bytes),
            style="bold" if number == worst else None,
        )
    return table
