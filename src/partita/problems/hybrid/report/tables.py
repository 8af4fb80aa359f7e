"""A hybrid plan in short, and as tables."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

from partita.documents.tables.text import module_ranges, new_table
from partita.ground.units import format_bytes, format_time
from partita.nouns.pipeline import Plan, Stage, zero_text
from partita.problems.hybrid.evaluation import HybridEvaluation
from partita.problems.hybrid.problem import HybridProblem

if TYPE_CHECKING:
    from rich.table import Table

    from partita.problems.facets.model import ModelPlan
    from partita.problems.hybrid.kind import HybridKind


def degrees_text(plan: Plan) -> str:
    """Stages and their degrees in short: ``8 stages: 7 × d4·t2, d8·t1``."""
    runs = itertools.groupby(_degrees(stage) for stage in plan.stages)
    counted = [(text, len(list(alike))) for text, alike in runs]
    shown = [text if count == 1 else f"{count} × {text}" for text, count in counted]
    if len(shown) > 4:
        shown = [*shown[:2], "…", shown[-1]]
    count = len(plan.stages)
    how = [] if plan.schedule == "1f1b" else [plan.schedule + (f" × {plan.chunks}" if plan.chunks > 1 else "")]
    how += [zero_text(plan.zero, plan.zero_shards)] if plan.zero else []
    shown += how
    return f"{count} stage{'s' if count > 1 else ''}: {', '.join(shown)}"


def _degrees(stage: Stage) -> str:
    further = zip("cex", stage.shared, (1, 1, 0), strict=True)
    more = "".join(f"·{letter}{degree}" for letter, degree, usual in further if degree > usual)
    where = f" on {stage.kind}" if stage.kind else ""
    return f"d{stage.data_parallel}·t{stage.tensor_parallel}{more}{where}"


def _further(problem: HybridProblem, plan: Plan) -> list[str]:
    """Of context and expert degrees those that the plan has, or that there is a choice of; the third if it has one."""
    used = [stage.shared for stage in plan.stages]
    known = [*(there.shared for there in problem.spreads), *used]
    shown = [name for name in ("context", "expert") if any(getattr(degrees, name) > 1 for degrees in known)]
    return shown + (["expert_tensor"] if any(degrees.expert_tensor for degrees in used) else [])


def stage_degrees(plan: Plan) -> list[dict[str, int]]:
    """Layers and degrees of every stage."""
    return [
        {
            "layers": len(stage.operators),
            "data_parallel": stage.data_parallel,
            "tensor_parallel": stage.tensor_parallel,
            "context_parallel": stage.context_parallel,
            "expert_parallel": stage.expert_parallel,
            "expert_tensor_parallel": stage.expert_tensor_parallel,
        }
        for stage in plan.stages
    ]


def configuration_ranges(problem: HybridProblem, stage: Stage) -> list[tuple[str, str]]:
    """The stage's layers as ranges that share a configuration: (``model.layers.0-3``, ``full``), in order."""
    names = {layer.id: layer.name or f"layer {layer.id}" for layer in problem.layers}
    runs = itertools.groupby(stage.operators, key=lambda identity: stage.configurations[identity])
    return [(", ".join(module_ranges([names[v] for v in layers])), choice) for choice, layers in runs]


def slowest_stage(evaluation: HybridEvaluation) -> int | None:
    """Number of the stage that the objective is the time of; None where a link between machines is slower."""
    times = [stage.time_per_microbatch for stage in evaluation.stages]
    linked = evaluation.machine_groups and max(times) < evaluation.objective
    return None if linked else times.index(max(times))


def plan_tables(
    problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation, *, named: bool = False
) -> list[Table]:
    """One row per stage, and one per machine group where there are any.

    A stage's row says degrees, time of each part, memory of each device, and how often each configuration is chosen, or
    of a model with ``named`` layers which ones run so.
    """
    machines = ("machines",) if problem.hierarchy is not None and evaluation.machine_groups else ()
    parts = ("compute", "transfer", "weight sync", _each(problem))
    title = f"Stages: {plan.device_count} of {problem.all_devices} devices"
    title += "" if named else f", {plan.microbatches} microbatches in flight"
    words = "layers: recomputation" if named else "configurations"
    places, further = ("device",) if problem.others else (), _further(problem, plan)
    columns = ("#", "layers", *places, "data", "tensor", *(name.replace("_", " ") for name in further), *machines)
    table = new_table(title, columns, words, ("in flight", *parts, "memory"))
    worst = slowest_stage(evaluation)
    for number, (stage, worth) in enumerate(zip(plan.stages, evaluation.stages, strict=True)):
        limit = problem.on(stage.kind).memory_bytes
        if named:
            ways = "; ".join(f"{layers}: {choice}" for layers, choice in configuration_ranges(problem, stage))
        else:
            ways = ", ".join(f"{count} {name}" for name, count in Counter(stage.configurations.values()).most_common())
        times = (worth.compute, worth.transfer, worth.weight_sync, worth.time_per_microbatch)
        *shown, total = (format_time(time, problem.unit) for time in times)
        table.add_row(
            str(number),
            str(len(stage.operators)),
            *(stage.kind for _ in places),
            *(str(getattr(stage, f"{name}_parallel")) for name in ("data", "tensor", *further)),
            *(str(stage.machines) for _ in machines),
            ways,
            str(worth.in_flight),
            *shown,
            total + (" ◀" if number == worst else ""),
            format_bytes(worth.memory_bytes) + ("" if not limit else f" ({worth.memory_bytes / limit:.0%})"),
            style="bold" if number == worst else None,
        )
    return [table, _link_table(problem, plan, evaluation)] if machines else [table]


def _link_table(problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> Table:
    """One row per machine group: its machines, stages, and how long their links are busy."""
    title = f"Links between machines: {plan.machines} of {problem.machines} machines"
    table = new_table(title, ("group", "machines", "stages", "transfer", "weight sync", _each(problem)))
    binds = slowest_stage(evaluation) is None
    for number, link in enumerate(evaluation.machine_groups):
        held = [place for place, stage in enumerate(plan.stages) if stage.machine_group == number]
        slowest = binds and link.time_per_microbatch >= evaluation.objective
        table.add_row(
            str(number),
            str(link.machines),
            str(held[0]) if len(held) == 1 else f"{held[0]}–{held[-1]}",
            format_time(link.transfer, problem.unit),
            format_time(link.weight_sync, problem.unit),
            format_time(link.time_per_microbatch, problem.unit) + (" ◀" if slowest else ""),
            style="bold" if slowest else None,
        )
    return table


def _each(problem: HybridProblem) -> str:
    """The heading of a time of one microbatch."""
    return "per sample" if problem.microbatch_samples == 1 else "per microbatch"


def batch_table(answer: ModelPlan[HybridProblem], kind: HybridKind, *, per_sample: bool) -> Table:
    """Every number of microbatches that was tried, with the objective as it is or by sample of a microbatch."""
    title = "per sample" if per_sample else "step"
    columns = ("microbatches", "samples each", title, "step per sample", "bubble")
    table = new_table("Microbatches tried", columns, "stages and degrees")
    unit = answer.problem.unit
    for priced, result in answer.tried:
        problem = priced.problem
        number, samples = problem.microbatches, str(problem.microbatch_samples)
        if result.plan is None or result.evaluation is None:
            table.add_row(str(number), samples, "—", "—", "—", str(result.status))
            continue
        step = kind.simulated_step(problem, result.plan, result.evaluation)
        chosen = number == answer.problem.microbatches
        table.add_row(
            str(number),
            samples,
            format_time(result.evaluation.objective / (problem.microbatch_samples if per_sample else 1), unit),
            format_time(step.per_sample, unit) + (" ◀" if chosen else ""),
            f"{step.bubble:.0%}",
            degrees_text(result.plan),
            style="bold" if chosen else None,
        )
    return table
