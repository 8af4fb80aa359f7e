"""A model's hybrid plan as a document, and as tables for people."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from partita.problems.hybrid.evaluate import HybridEvaluation
from partita.problems.hybrid.files.native import hybrid_result_document
from partita.problems.hybrid.plan import HybridPlan, HybridStage
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.report.comparison import (
    degrees_text,
    hybrid_comparison_table,
    recipe_documents,
    step_document,
)
from partita.problems.hybrid.report.limits import binding, device_time, hybrid_sentences
from partita.problems.hybrid.report.plan_table import link_table, slowest_stage
from partita.problems.throughput.report.modules import module_ranges
from partita.units import format_bytes, format_count, format_time

if TYPE_CHECKING:
    from rich.console import RenderableType

    from partita.conductor.hybrid_planning import HybridModelPlan

__all__ = ["configuration_ranges", "hybrid_model_document", "hybrid_model_tables", "hybrid_stage_table"]


def configuration_ranges(problem: HybridProblem, stage: HybridStage) -> list[tuple[str, str]]:
    """The stage's layers as ranges that share a configuration: (``model.layers.0-3``, ``full``), in order."""
    names = {layer.id: layer.name or f"layer {layer.id}" for layer in problem.layers}
    runs: list[tuple[str, list[str]]] = []
    for identity in stage.operators:
        choice = stage.configurations[identity]
        if not runs or runs[-1][0] != choice:
            runs.append((choice, []))
        runs[-1][1].append(names[identity])
    return [(", ".join(module_ranges(layers)), choice) for choice, layers in runs]


def hybrid_stage_table(problem: HybridProblem, plan: HybridPlan, evaluation: HybridEvaluation) -> Table:
    """One row per stage: degrees, layers with the way each range runs, time per sample, memory of each device."""
    title = f"Stages: {plan.devices} of {problem.devices} devices"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    columns = ["#", "data", "tensor"]
    if problem.hierarchy is not None:
        columns.append("machines")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("layers: recomputation", overflow="fold", ratio=1)
    for column in ("in flight", "compute", "transfer", "weight sync", "per sample", "memory"):
        table.add_column(column, justify="right", no_wrap=True)
    worst = slowest_stage(evaluation)
    limit = problem.memory_bytes
    for number, (stage, worth) in enumerate(zip(plan.stages, evaluation.stages, strict=True)):
        cells = [str(number), str(stage.data_parallel), str(stage.tensor_parallel)]
        if problem.hierarchy is not None:
            cells.append(str(stage.machines))
        share = "" if not limit else f" ({worth.memory_bytes / limit:.0%})"
        cells += [
            "; ".join(f"{layers}: {choice}" for layers, choice in configuration_ranges(problem, stage)),
            str(worth.in_flight),
            format_time(worth.compute, problem.unit),
            format_time(worth.transfer, problem.unit),
            format_time(worth.weight_sync, problem.unit),
            format_time(worth.time_per_sample, problem.unit) + (" ◀" if number == worst else ""),
            format_bytes(worth.memory_bytes) + share,
        ]
        table.add_row(*cells, style="bold" if number == worst else None)
    return table


def hybrid_model_document(answer: HybridModelPlan) -> dict[str, Any]:
    """The result document with modules and recomputation per stage, the step, what limits the plan, and the recipes."""
    graph, problem, result = answer.graph, answer.problem, answer.result
    document = hybrid_result_document(result)
    document["notes"] = list(dict.fromkeys([*graph.notes, *problem.notes]))
    document["model"] = {
        "name": graph.name,
        "operators": len(graph.operators),
        "layers": len(problem.layers),
        "parameters": graph.parameter_count,
        "parameter_bytes": graph.parameter_bytes,
        "flops": answer.model_flops,
        "training": graph.training,
    }
    document["minimised"] = answer.aim
    document["microbatches"] = problem.microbatches
    document["devices"] = problem.devices
    document["memory_limit_bytes"] = problem.memory_bytes
    document["cluster"] = answer.cluster
    document["step"] = step_document(answer.step)
    document["model_flops_utilisation"] = None
    document["limits"] = None
    document["baselines"] = recipe_documents(result, answer.recipes)
    document["batches"] = [
        {
            "microbatches": row.microbatches,
            "objective": row.result.objective,
            "status": str(row.result.status),
            "step": step_document(row.step),
        }
        for row in answer.batches
    ]
    faster = answer.faster_step
    document["faster_step"] = None if faster is None else recipe_documents(result, [faster])[0]
    if result.plan is None or result.evaluation is None or answer.step is None:
        return document
    document["model_flops_utilisation"] = {
        "steady": answer.utilisation(result.evaluation.objective),
        "step": answer.utilisation(answer.step.per_sample),
    }
    spent = device_time(problem, result.plan, result.evaluation)
    document["limits"] = {
        "binding": binding(spent, result.evaluation.objective, answer.without_memory),
        "device_time": spent.parts(),
        "sentences": hybrid_sentences(problem, result.plan, result.evaluation, answer.without_memory),
    }
    for entry, stage in zip(document["plan"]["stages"], result.plan.stages, strict=True):
        entry["modules"] = [name for identity in stage.operators for name in answer.modules[identity]]
        entry["recomputation"] = [
            {"layers": layers, "configuration": choice} for layers, choice in configuration_ranges(problem, stage)
        ]
    return document


def hybrid_model_tables(answer: HybridModelPlan) -> list[RenderableType]:
    """What a person reads: the model, the stages, the step, what limits the plan, and the recipes."""
    graph, problem, result = answer.graph, answer.problem, answer.result
    shown: list[RenderableType] = [
        f"{graph.name}: {len(graph.operators)} operators in {len(problem.layers)} layers, "
        f"{format_count(graph.parameter_count)} parameters ({format_bytes(graph.parameter_bytes)}), "
        f"{format_count(answer.model_flops)}FLOP per microbatch, training (forward and backward)"
    ]
    if result.plan is not None and result.evaluation is not None:
        shown.append(hybrid_stage_table(problem, result.plan, result.evaluation))
        links = link_table(problem, result.plan, result.evaluation)
        if links is not None:
            shown.append(links)
        shown.append(_paragraphs("A training step", _step_sentences(answer)))
        sentences = hybrid_sentences(problem, result.plan, result.evaluation, answer.without_memory)
        shown.append(_paragraphs("What limits the plan", sentences))
    if answer.recipes:
        shown.append(hybrid_comparison_table(result, answer.step, answer.recipes))
    if len(answer.batches) > 1:
        shown.append(_batch_table(answer))
    notes = list(dict.fromkeys([*graph.notes, *problem.notes]))
    if notes:
        shown.append(_paragraphs("Notes", notes))
    return shown


def _step_sentences(answer: HybridModelPlan) -> list[str]:
    step, result, problem = answer.step, answer.result, answer.problem
    if step is None or result.plan is None or result.evaluation is None:
        return []
    unit = problem.unit
    found = [
        f"{step.microbatches} microbatches take {format_time(step.step, unit)}, {format_time(step.per_sample, unit)} "
        f"each: {format_time(step.pipeline, unit)} from the first forward to the last backward part, "
        f"{format_time(step.weight_sync, unit)} to synchronise weights, {format_time(step.update, unit)} for the "
        f"optimizer; {step.bubble:.1%} of the step is beyond the steady state",
        f"in the steady state a microbatch takes {format_time(result.evaluation.objective, unit)}",
        f"model FLOPs utilisation: {answer.utilisation(step.per_sample):.1%} with the whole step, "
        f"{answer.utilisation(result.evaluation.objective):.1%} in the steady state",
    ]
    faster = answer.faster_step
    if faster is not None and faster.step is not None and faster.plan is not None:
        found.append(
            f"a shorter step is known: {degrees_text(faster.plan)} takes {format_time(faster.step.per_sample, unit)} "
            f"per microbatch, {1 - faster.step.step / step.step:.1%} less; --minimise step plans for that"
        )
    if answer.aim == "step":
        found.append("this plan was chosen for its step; the bound is one of the steady state, so of every step, too")
    return found


def _batch_table(answer: HybridModelPlan) -> Table:
    table = Table(title="Microbatches tried", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("microbatches", "per sample", "with bubble", "bubble"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("stages and degrees", overflow="fold", ratio=1)
    unit = answer.problem.unit
    for row in answer.batches:
        objective, step = row.result.objective, row.step
        if objective is None or step is None or row.result.plan is None:
            table.add_row(str(row.microbatches), "—", "—", "—", str(row.result.status))
            continue
        chosen = row.microbatches == answer.problem.microbatches
        table.add_row(
            str(row.microbatches),
            format_time(objective, unit),
            format_time(step.per_sample, unit) + (" ◀" if chosen else ""),
            f"{step.bubble:.0%}",
            degrees_text(row.result.plan),
            style="bold" if chosen else None,
        )
    return table


def _paragraphs(title: str, sentences: Sequence[str]) -> str:
    lines = [title]
    for sentence in sentences:
        lines += textwrap.wrap(sentence, 118, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines) + "\n"
