"""A hybrid plan for people, and as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from partita.documents.tables.text import module_ranges, paragraphs
from partita.engines.search.result import Result, Rival
from partita.ground.units import format_time
from partita.nouns.pipeline import Plan
from partita.problems.facets.records import OperatorPlace, StageSummary
from partita.problems.facets.report import Reporting, model_sentence, network_sentences
from partita.problems.hybrid.evaluation import HybridEvaluation
from partita.problems.hybrid.kind import HybridKind
from partita.problems.hybrid.model_layers import layer_modules
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.report.limits import binding, device_time, explain_slower, hybrid_sentences
from partita.problems.hybrid.report.tables import (
    batch_table,
    configuration_ranges,
    degrees_text,
    plan_tables,
    stage_degrees,
)
from partita.problems.hybrid.spaces import utilisation
from partita.problems.hybrid.timeline import SimulatedStep

if TYPE_CHECKING:
    from rich.console import RenderableType

    from partita.problems.facets.model import ModelPlan

HybridResult = Result[HybridProblem, Plan, HybridEvaluation]


def _spends_more_on(result: HybridResult, row: Rival) -> str:
    """What a row spends more time on than the result's plan; empty for nothing, or where one of them has no plan."""
    if result.plan is None or result.evaluation is None or row.plan is None:
        return ""
    mine = device_time(result.problem, result.plan, result.evaluation)
    return explain_slower(device_time(result.problem, row.plan, row.evaluation), mine)


class HybridReport(Reporting[HybridProblem, Plan, HybridEvaluation]):
    """Stages with their degrees, the step they make, and where devices spend their time."""

    kind: HybridKind
    doing = "planning"
    #: Whether the objective is shown by sample where several batches were tried.
    per_sample = False

    def mesh_of(self, problem: HybridProblem) -> str:
        """Whether all stages have the same degrees, or each its own."""
        return "free"

    def further_document(self, answer: ModelPlan[HybridProblem], evaluation: HybridEvaluation) -> dict[str, Any]:
        """What an answer with a plan says of its objective alone."""
        return {}

    def step_sentences(self, answer: ModelPlan[HybridProblem], plan: Plan, step: SimulatedStep) -> list[str]:
        """How long the step of an answer's plan takes, what of, and whether a shorter one is known."""
        return []

    def used(self, answer: ModelPlan[HybridProblem], step: SimulatedStep) -> str:
        """How much of the devices' peak a step uses, in words."""
        steady, whole = (f"{value:.1%}" for value in _utilisation(answer, step).values())
        return f"model FLOPs utilisation: {whole} with the whole step, {steady} in the steady state"

    def step_document(self, problem: HybridProblem, plan: Plan | None, evaluation: Any) -> dict[str, Any] | None:
        """A plan's step as plain values, in the problem's unit of time; None where none can run."""
        step = None if plan is None else self.kind.simulated_step(problem, plan, evaluation)
        return None if step is None else step.document()

    def tables(self, problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> Sequence[RenderableType]:
        return plan_tables(problem, plan, evaluation)

    def stages(self, problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> Sequence[StageSummary]:
        names = {layer.id: layer.name or f"layer {layer.id}" for layer in problem.layers}
        return [
            StageSummary(
                number=number,
                device=stage.kind,
                devices=stage.devices,
                device_count=stage.device_count,
                operators=stage.operators,
                modules=tuple(module_ranges([names[identity] for identity in stage.operators])),
                data_parallel=stage.data_parallel,
                tensor_parallel=stage.tensor_parallel,
                context_parallel=stage.context_parallel,
                expert_parallel=stage.expert_parallel,
                expert_tensor_parallel=stage.expert_tensor_parallel,
                time=worth.time_per_microbatch,
                compute=worth.compute,
                communication=worth.transfer + worth.weight_sync,
                memory_bytes=worth.memory_bytes,
                memory_limit_bytes=problem.on(stage.kind).memory_bytes or None,
            )
            for number, (stage, worth) in enumerate(zip(plan.stages, evaluation.stages, strict=True))
        ]

    def operators(self, problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> Sequence[OperatorPlace]:
        """Layers with the time of a microbatch on a group of devices, and the configuration that was chosen."""
        found: dict[int, OperatorPlace] = {}
        for number, stage in enumerate(plan.stages):
            layers = {layer.id: layer for layer in problem.on(stage.kind).layers}
            where = f"{stage.device_count} × {stage.kind or problem.device or 'device'}"
            for identity in stage.operators:
                layer, chosen = layers[identity], stage.configurations[identity]
                choices = layer.configurations.get(stage.tensor_parallel, ())
                found[identity] = OperatorPlace(
                    id=identity,
                    name=layer.name or layer.label,
                    module=layer.name,
                    stage=number,
                    device=where,
                    time=next((choice.time for choice in choices if choice.id == chosen), None),
                    note=chosen,
                )
        return [found[layer.id] for layer in problem.layers]

    def figures(self, problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> Mapping[str, str]:
        step = self.kind.simulated_step(problem, plan, evaluation)
        found = {"stages and degrees": degrees_text(plan)}
        if step is None:
            return found
        found |= {"with bubble": format_time(step.per_microbatch, problem.unit), "bubble": f"{step.bubble:.0%}"}
        return found | ({"by formula": format_time(step.formula.per_microbatch, problem.unit)} if step.differs else {})

    def step(self, problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> float | None:
        step = self.kind.simulated_step(problem, plan, evaluation)
        return None if step is None else float(step.step)

    def why(self, result: HybridResult, row: Rival) -> str:
        return _spends_more_on(result, row) or row.summary

    def row_document(self, result: HybridResult, row: Rival) -> dict[str, Any]:
        spent = None if row.plan is None else device_time(result.problem, row.plan, row.evaluation)
        return {
            "stages": None if row.plan is None else stage_degrees(row.plan),
            "step": self.step_document(result.problem, row.plan, row.evaluation),
            "device_time": None if spent is None else spent.parts(),
            "binding": None if spent is None else spent.binding,
            "why": _spends_more_on(result, row) or None,
        }

    def result_document(self, result: HybridResult) -> dict[str, Any]:
        return {"step": self.step_document(result.problem, result.plan, result.evaluation)}

    def answer_document(self, answer: ModelPlan[HybridProblem], document: dict[str, Any]) -> None:
        problem, result = answer.problem, answer.result
        document["model"]["layers"] = len(problem.layers)
        document |= {
            "minimised": answer.priced.settings.minimise,
            "mesh": self.mesh_of(problem),
            "microbatches": problem.microbatches,
            "microbatch_samples": problem.microbatch_samples,
            "global_batch": problem.microbatches * problem.microbatch_samples,
            "devices": problem.all_devices,
            "memory_limit_bytes": problem.memory_bytes,
            "model_flops_utilisation": None,
            "limits": None,
            "batches": [
                {
                    "microbatches": priced.problem.microbatches,
                    "objective": tried.objective,
                    "status": str(tried.status),
                    "step": self.step_document(priced.problem, tried.plan, tried.evaluation),
                }
                for priced, tried in answer.tried
            ],
            "faster_step": None if answer.other is None else self.row_documents(result, [answer.other])[0],
        }
        if result.plan is None or result.evaluation is None:
            return
        step = self.kind.simulated_step(problem, result.plan, result.evaluation)
        document["model_flops_utilisation"] = _utilisation(answer, step)
        document |= self.further_document(answer, result.evaluation)
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

    def answer_tables(self, answer: ModelPlan[HybridProblem]) -> Sequence[RenderableType]:
        problem, result = answer.problem, answer.result
        shown: list[RenderableType] = [
            model_sentence(answer.graph, f" in {len(problem.layers)} layers"),
            *network_sentences(answer.cluster),
        ]
        if result.plan is not None and result.evaluation is not None:
            sentences = hybrid_sentences(problem, result.plan, result.evaluation, answer.without_limit)
            step = self.kind.simulated_step(problem, result.plan, result.evaluation)
            shown += plan_tables(problem, result.plan, result.evaluation, named=True)
            shown.append(paragraphs("A training step", self.step_sentences(answer, result.plan, step)))
            shown.append(paragraphs("What limits the plan", sentences))
        if len(answer.tried) > 1:
            shown.append(batch_table(answer, self.kind, per_sample=self.per_sample))
        return shown


def _utilisation(answer: ModelPlan[HybridProblem], step: SimulatedStep) -> dict[str, float]:
    """Of the devices' peak in the steady state, and with the whole step."""
    times = {"steady": step.formula.steady / step.microbatches, "step": step.per_microbatch}
    return {name: utilisation(answer.graph, answer.cluster, time) for name, time in times.items()}
