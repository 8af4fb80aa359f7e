"""A hybrid plan for people, and as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from partita.problems.facets.report import Report
from partita.problems.hybrid.evaluate import HybridEvaluation
from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.report.degrees import degrees_text, stage_degrees
from partita.problems.hybrid.report.limits import binding, device_time, explain_slower, hybrid_sentences
from partita.problems.hybrid.report.model_tables import (
    batch_table,
    configuration_ranges,
    hybrid_stage_table,
    step_sentences,
)
from partita.problems.hybrid.report.plan_table import hybrid_table, link_table
from partita.problems.hybrid.report.utilisation import layer_modules, utilisation
from partita.problems.hybrid.step_time import step_time
from partita.run.result import Result, Row
from partita.tables.results import row_documents
from partita.tables.text import paragraphs
from partita.units import format_bytes, format_count, format_time

if TYPE_CHECKING:
    from rich.console import RenderableType

    from partita.problems.facets.model import Answer

HybridResult = Result[HybridProblem, HybridPlan, HybridEvaluation]


def step_document(problem: HybridProblem, plan: HybridPlan | None, evaluation: Any) -> dict[str, Any] | None:
    """A plan's step as plain values, in the problem's unit of time; None without a plan."""
    if plan is None:
        return None
    step = step_time(problem, plan, evaluation)
    return {
        "microbatches": step.microbatches,
        "time": step.step,
        "time_per_sample": step.per_sample,
        "pipeline": step.pipeline,
        "weight_sync": step.weight_sync,
        "update": step.update,
        "bubble": step.bubble,
    }


def _spends_more_on(result: HybridResult, row: Row) -> str:
    """What a row spends more time on than the result's plan; empty for nothing, or where one of them has no plan."""
    if result.plan is None or result.evaluation is None or row.plan is None:
        return ""
    mine = device_time(result.problem, result.plan, result.evaluation)
    return explain_slower(device_time(result.problem, row.plan, row.evaluation), mine)


class HybridReport(Report[HybridProblem, HybridPlan, HybridEvaluation]):
    """Stages with their degrees, the step they make, and where devices spend their time."""

    doing = "planning"
    per = " per sample"

    def tables(
        self, problem: HybridProblem, plan: HybridPlan, evaluation: HybridEvaluation
    ) -> Sequence[RenderableType]:
        """Stages, and links between machines where there are any."""
        links = link_table(problem, plan, evaluation)
        return [hybrid_table(problem, plan, evaluation), *([] if links is None else [links])]

    def figures(self, problem: HybridProblem, plan: HybridPlan, evaluation: HybridEvaluation) -> Mapping[str, str]:
        """Stages with degrees, and the step."""
        step = step_time(problem, plan, evaluation)
        return {
            "stages and degrees": degrees_text(plan),
            "with bubble": format_time(step.per_sample, problem.unit),
            "bubble": f"{step.bubble:.0%}",
        }

    def why(self, result: HybridResult, row: Row) -> str:
        """What it spends its time on."""
        return _spends_more_on(result, row) or row.summary

    def row_document(self, result: HybridResult, row: Row) -> dict[str, Any]:
        """Degrees, step, and where device time goes."""
        spent = None if row.plan is None else device_time(result.problem, row.plan, row.evaluation)
        return {
            "stages": None if row.plan is None else stage_degrees(row.plan),
            "step": step_document(result.problem, row.plan, row.evaluation),
            "device_time": None if spent is None else spent.parts(),
            "binding": None if spent is None else spent.binding,
            "why": _spends_more_on(result, row) or None,
        }

    def result_document(self, result: HybridResult) -> dict[str, Any]:
        """The step."""
        return {"step": step_document(result.problem, result.plan, result.evaluation)}

    def answer_document(self, answer: Answer[HybridProblem], document: dict[str, Any]) -> None:
        """Modules and recomputation per stage, the step, and what limits the plan."""
        problem, result = answer.problem, answer.result
        document["model"]["layers"] = len(problem.layers)
        document["minimised"] = answer.priced.settings.minimise
        document["microbatches"] = problem.microbatches
        document["devices"] = problem.devices
        document["memory_limit_bytes"] = problem.memory_bytes
        document["model_flops_utilisation"] = None
        document["limits"] = None
        document["batches"] = [
            {
                "microbatches": priced.problem.microbatches,
                "objective": tried.objective,
                "status": str(tried.status),
                "step": step_document(priced.problem, tried.plan, tried.evaluation),
            }
            for priced, tried in answer.tried
        ]
        document["faster_step"] = None if answer.other is None else row_documents(self, result, [answer.other])[0]
        if result.plan is None or result.evaluation is None:
            return
        document["model_flops_utilisation"] = {
            "steady": utilisation(answer, result.evaluation.objective),
            "step": utilisation(answer, step_time(problem, result.plan, result.evaluation).per_sample),
        }
        spent = device_time(problem, result.plan, result.evaluation)
        document["limits"] = {
            "binding": binding(spent, result.evaluation.objective, answer.without_limit),
            "device_time": spent.parts(),
            "sentences": hybrid_sentences(problem, result.plan, result.evaluation, answer.without_limit),
        }
        modules = layer_modules(answer.graph, answer.priced.details)
        for entry, stage in zip(document["plan"]["stages"], result.plan.stages, strict=True):
            entry["modules"] = [name for identity in stage.operators for name in modules[identity]]
            entry["recomputation"] = [
                {"layers": layers, "configuration": choice} for layers, choice in configuration_ranges(problem, stage)
            ]

    def answer_tables(self, answer: Answer[HybridProblem]) -> Sequence[RenderableType]:
        """The model, the stages, the step, and what limits the plan."""
        graph, problem, result = answer.graph, answer.problem, answer.result
        shown: list[RenderableType] = [
            f"{graph.name}: {len(graph.operators)} operators in {len(problem.layers)} layers, "
            f"{format_count(graph.parameter_count)} parameters ({format_bytes(graph.parameter_bytes)}), "
            f"{format_count(graph.flops)}FLOP per microbatch, training (forward and backward)"
        ]
        if result.plan is not None and result.evaluation is not None:
            shown.append(hybrid_stage_table(problem, result.plan, result.evaluation))
            links = link_table(problem, result.plan, result.evaluation)
            shown += [] if links is None else [links]
            shown.append(paragraphs("A training step", step_sentences(answer)))
            sentences = hybrid_sentences(problem, result.plan, result.evaluation, answer.without_limit)
            shown.append(paragraphs("What limits the plan", sentences))
        if len(answer.tried) > 1:
            shown.append(batch_table(answer))
        return shown
