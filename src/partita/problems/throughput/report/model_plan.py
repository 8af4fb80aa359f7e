"""A model's plan as a document, and as tables for people."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from partita.problems.throughput.files.native import result_document
from partita.problems.throughput.report.limits import limits
from partita.problems.throughput.report.modules import stage_modules
from partita.problems.throughput.report.tables import comparison_table, memory_table, stage_table
from partita.units import format_bytes, format_count

if TYPE_CHECKING:
    from rich.console import RenderableType

    from partita.conductor.pipeline import Comparison, ModelPlan

__all__ = ["comparison_documents", "model_plan_document", "model_plan_tables"]


def comparison_documents(rows: list[Comparison] | tuple[Comparison, ...]) -> list[dict[str, Any]]:
    """Rows of a comparison as plain values; the objective of a split that does not fit is null."""
    return [
        {
            "name": row.name,
            "summary": row.summary,
            "objective": row.evaluation.objective if row.evaluation is not None and row.evaluation.feasible else None,
            "load": None if row.evaluation is None else row.evaluation.objective,
            "feasible": row.evaluation is not None and row.evaluation.feasible,
            "reason": row.note or None,
            "runtime_s": row.runtime_s,
            "pipeline": None if row.pipeline is None else msgspec.structs.asdict(row.pipeline),
        }
        for row in rows
    ]


def model_plan_document(answer: ModelPlan) -> dict[str, Any]:
    """The result document with modules per stage, the cluster, what limits the plan, and the baselines."""
    graph, problem, result = answer.graph, answer.problem, answer.result
    document = result_document(result)
    document["notes"] = list(dict.fromkeys([*graph.notes, *problem.notes]))
    document["model"] = {
        "name": graph.name,
        "operators": len(graph.operators),
        "parameters": graph.parameter_count,
        "parameter_bytes": graph.parameter_bytes,
        "flops": graph.flops,
        "training": graph.training,
    }
    document["schedule"] = {
        "name": problem.schedule.name,
        "microbatches": problem.schedule.microbatches,
        "recompute": problem.schedule.recompute,
    }
    document["cluster"] = answer.cluster
    document["baselines"] = comparison_documents(answer.baselines)
    document["limits"] = None
    if result.plan is not None and result.evaluation is not None:
        found = limits(problem, result.evaluation, answer.without_memory)
        document["limits"] = {"stage": found.stage, "binding": found.binding, "sentences": list(found.sentences)}
        modules = stage_modules(problem, result.plan)
        plan = document["plan"]
        plan["stages"] = [
            {**device, "modules": list(entry.complete), "partial_modules": list(entry.partial)}
            for device, entry in zip(plan["devices"], modules, strict=True)
        ]
    return document


def model_plan_tables(answer: ModelPlan) -> list[RenderableType]:
    """What a person reads: the model, the stages, their memory, what limits the plan, and the baselines."""
    graph, problem, result = answer.graph, answer.problem, answer.result
    kind = "training (forward and backward)" if graph.training else "inference"
    shown: list[RenderableType] = [
        f"{graph.name}: {len(graph.operators)} operators, {format_count(graph.parameter_count)} parameters "
        f"({format_bytes(graph.parameter_bytes)}), {format_count(graph.flops)}FLOP per microbatch, {kind}"
    ]
    if result.plan is not None and result.evaluation is not None:
        counts = [len(stage.operators) for stage in result.plan.stages]
        modules = stage_modules(problem, result.plan)
        shown.append(stage_table(problem, result.evaluation, counts, modules))
        shown.append(memory_table(result.evaluation))
        found = limits(problem, result.evaluation, answer.without_memory)
        shown.append(_paragraphs("What limits the plan", found.sentences))
    shown.append(comparison_table(problem, result, answer.baselines))
    notes = list(dict.fromkeys([*graph.notes, *problem.notes]))
    if notes:
        shown.append(_paragraphs("Notes", notes))
    return shown


def _paragraphs(title: str, sentences: Sequence[str]) -> str:
    lines = [title]
    for sentence in sentences:
        lines += textwrap.wrap(sentence, 118, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines) + "\n"
