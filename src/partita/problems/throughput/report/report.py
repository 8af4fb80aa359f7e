"""A throughput plan for people, and as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from partita.documents.tables.text import paragraphs
from partita.engines.search.result import Result, Rival
from partita.ground.units import format_time
from partita.nouns.pipeline import Plan
from partita.problems.facets.report import Reporting, model_sentence, network_sentences, per_microbatch
from partita.problems.throughput.evaluation import Evaluation
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.report.limits import limits
from partita.problems.throughput.report.modules import stage_modules
from partita.problems.throughput.report.tables import memory_table, stage_table
from partita.problems.throughput.sample_latency import sample_latency
from partita.problems.throughput.simulated import simulated_pipeline

if TYPE_CHECKING:
    from rich.console import RenderableType

    from partita.problems.facets.model import ModelPlan

ThroughputResult = Result[ThroughputProblem, Plan, Evaluation]


class ThroughputReport(Reporting[ThroughputProblem, Plan, Evaluation]):
    """Stages, their memory, the pipeline they make, and what limits it."""

    doing = "splitting"

    def per(self, problem: ThroughputProblem) -> str:
        return per_microbatch(problem.microbatch_samples)

    def scope(self, scope: str) -> str:
        return f"{scope} split"

    def sentences(self, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> Sequence[str]:
        """Contiguity, depth of the pipeline, and the time that one sample takes."""
        found, run = sample_latency(problem, plan, evaluation), simulated_pipeline(problem, plan, evaluation)
        stages = f"{found.stages} stage{'s' if found.stages != 1 else ''}"
        if found.virtual_stages != found.stages:
            stages += f" as {found.virtual_stages} virtual ones"
        split = f"{'contiguous' if evaluation.acyclic else 'not contiguous'}, pipeline of {stages}, {found.depth} deep"
        if run is None:
            return [f"{split}; it cannot run"]
        unit, one = problem.unit, "sample" if problem.microbatch_samples == 1 else "microbatch"
        return [
            f"{split}: a {one} takes {format_time(run.latency, unit)} when it is full, "
            f"{format_time(run.latency_alone, unit)} alone (simulated; in rounds {format_time(found.latency, unit)})",
            f"{run.microbatches} microbatches take {format_time(run.step.time, unit)} under schedule {run.schedule}; "
            f"devices wait for {run.step.bubble:.1%} of that",
        ]

    def verdict(self, problem: ThroughputProblem, evaluation: Evaluation) -> dict[str, Any]:
        return {"acyclic": evaluation.acyclic}

    def tables(self, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> Sequence[RenderableType]:
        """Stages, and their memory where there is any."""
        counts = [len(stage.operators) for stage in plan.stages]
        found = [stage_table(problem, evaluation, counts, stage_modules(problem, plan))]
        if any(stage.memory.total for stage in evaluation.stages):
            found.append(memory_table(evaluation))
        return found

    def figures(self, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> Mapping[str, str]:
        """The latency of one sample through the full pipeline."""
        run, unit = simulated_pipeline(problem, plan, evaluation), problem.unit
        if run is None:
            return {}
        return {"latency": format_time(run.latency, unit), "step": format_time(run.step.time, unit)}

    def step(self, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> float | None:
        run = simulated_pipeline(problem, plan, evaluation)
        return None if run is None else float(run.step.time)

    def row_document(self, result: ThroughputResult, row: Rival) -> dict[str, Any]:
        """The largest load, feasible or not, and the pipeline."""
        if row.evaluation is None:
            return {"load": None, "pipeline": None, "step": None}
        run = simulated_pipeline(result.problem, row.plan, row.evaluation)
        pipeline = msgspec.structs.asdict(sample_latency(result.problem, row.plan, row.evaluation))
        return {
            "load": row.evaluation.objective,
            "pipeline": pipeline if run is None else run.document(),
            "step": None if run is None else run.step_document(),
        }

    def result_document(self, result: ThroughputResult) -> dict[str, Any]:
        """A batch as it runs."""
        run = None
        if result.plan is not None and result.evaluation is not None:
            run = simulated_pipeline(result.problem, result.plan, result.evaluation)
        return {"step": None if run is None else run.step_document()}

    def answer_document(self, answer: ModelPlan[ThroughputProblem], document: dict[str, Any]) -> None:
        """Modules of every stage, the schedule, and what limits the plan."""
        problem, result = answer.problem, answer.result
        document["schedule"] = msgspec.structs.asdict(problem.schedule)
        document["limits"] = None
        if result.plan is None or result.evaluation is None:
            return
        document["limits"] = limits(problem, result.evaluation, answer.without_limit)
        plan = document["plan"]
        plan["stages"] = [
            {**device, "modules": list(entry.complete), "partial_modules": list(entry.partial)}
            for device, entry in zip(plan["devices"], stage_modules(problem, result.plan), strict=True)
        ]

    def answer_tables(self, answer: ModelPlan[ThroughputProblem]) -> Sequence[RenderableType]:
        """The model, the stages, their memory, and what limits the plan."""
        problem, result = answer.problem, answer.result
        shown: list[RenderableType] = [model_sentence(answer.graph), *network_sentences(answer.cluster)]
        if result.plan is not None and result.evaluation is not None:
            shown += self.tables(problem, result.plan, result.evaluation)
            found = limits(problem, result.evaluation, answer.without_limit)
            shown.append(paragraphs("What limits the plan", found["sentences"]))
        return shown
