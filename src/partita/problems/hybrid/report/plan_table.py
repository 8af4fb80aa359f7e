"""A hybrid plan as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from rich.table import Table

from partita.problems.hybrid.evaluate import HybridEvaluation
from partita.problems.hybrid.plan import HybridPlan, HybridStage
from partita.problems.hybrid.problem import HybridProblem
from partita.tables.text import new_table
from partita.units import format_bytes, format_time


def slowest_stage(evaluation: HybridEvaluation) -> int | None:
    """Number of the stage that the objective is the time of; None where a link between machines is slower."""
    times = [stage.time_per_sample for stage in evaluation.stages]
    return times.index(max(times)) if max(times) >= evaluation.objective else None


def link_table(problem: HybridProblem, plan: HybridPlan, evaluation: HybridEvaluation) -> Table | None:
    """One row per machine group: its machines, stages, and how long their links are busy; None without machines."""
    if problem.hierarchy is None:
        return None
    title = f"Links between machines: {plan.machines} of {problem.machines} machines"
    table = new_table(title, ("group", "machines", "stages", "transfer", "weight sync", "per sample"))
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

    def ways(stage: HybridStage) -> str:
        return ", ".join(f"{count} {name}" for name, count in Counter(stage.configurations.values()).most_common())

    return stage_table(title, problem, plan, evaluation, "configurations", ways)


def stage_table(
    title: str,
    problem: HybridProblem,
    plan: HybridPlan,
    evaluation: HybridEvaluation,
    words: str,
    ways: Callable[[HybridStage], str],
) -> Table:
    """One row per stage: layers, degrees, how its layers run, time of each part, memory of each device."""
    machines = () if problem.hierarchy is None else ("machines",)
    parts = ("compute", "transfer", "weight sync", "per sample")
    table = new_table(title, ("#", "layers", "data", "tensor", *machines), words, ("in flight", *parts, "memory"))
    worst, limit = slowest_stage(evaluation), problem.memory_bytes
    for number, (stage, worth) in enumerate(zip(plan.stages, evaluation.stages, strict=True)):
        times = (worth.compute, worth.transfer, worth.weight_sync, worth.time_per_sample)
        *shown, total = (format_time(time, problem.unit) for time in times)
        table.add_row(
            *(str(count) for count in (number, len(stage.operators), stage.data_parallel, stage.tensor_parallel)),
            *(str(stage.machines) for _ in machines),
            ways(stage),
            str(worth.in_flight),
            *shown,
            total + (" ◀" if number == worst else ""),
            format_bytes(worth.memory_bytes) + ("" if not limit else f" ({worth.memory_bytes / limit:.0%})"),
            style="bold" if number == worst else None,
        )
    return table
