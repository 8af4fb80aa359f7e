"""A throughput plan for people, and as plain values: its stages, their memory, and what limits it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from partita.documents.tables.modules import PartModules, part_modules, shortened
from partita.documents.tables.text import new_table, paragraphs
from partita.engines.search.result import Result, Rival
from partita.ground.units import format_bytes, format_time
from partita.nouns.pipeline import Plan
from partita.problems.facets.records import MemoryUse, OperatorPlace, StageSummary
from partita.problems.facets.report import Reporting, model_sentence, network_sentences, per_microbatch
from partita.problems.throughput.evaluation import Evaluation, StageMemory
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.simulated import pipeline_document, sample_latency, simulated_pipeline, step_document

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from partita.problems.facets.model import ModelPlan

ThroughputResult = Result[ThroughputProblem, Plan, Evaluation]

#: A stage whose memory is this full may owe its cut to memory.
MEMORY_FULL = 0.95


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
        found = [_stage_table(problem, plan, evaluation)]
        if any(stage.memory.total for stage in evaluation.stages):
            found.append(_memory_table(evaluation))
        return found

    def stages(self, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> Sequence[StageSummary]:
        modules = stage_modules(problem, plan)
        return [
            StageSummary(
                number=number,
                device=worth.device,
                devices=stage.devices,
                device_count=stage.device_count,
                operators=stage.operators,
                modules=tuple(shortened(names)),
                data_parallel=stage.data_parallel,
                tensor_parallel=stage.tensor_parallel,
                time=worth.load,
                compute=worth.compute,
                communication=worth.communication,
                memory_bytes=worth.memory.total or None,
                memory_limit_bytes=worth.memory.limit,
            )
            for number, (stage, worth, names) in enumerate(zip(plan.stages, evaluation.stages, modules, strict=True))
        ]

    def memory(self, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> Sequence[MemoryUse]:
        """What every stage holds, by what it is for."""
        return [
            MemoryUse(
                stage=number,
                device=worth.device,
                total_bytes=worth.memory.total,
                limit_bytes=worth.memory.limit,
                parts={name: size for name, size in worth.memory.parts.items() if size},
            )
            for number, worth in enumerate(evaluation.stages)
            if worth.memory.total
        ]

    def operators(self, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> Sequence[OperatorPlace]:
        """With the time of their kind of device."""
        kinds = {kind.name: place for place, kind in enumerate(problem.kinds)}
        stage_of = {identity: number for number, stage in enumerate(plan.stages) for identity in stage.operators}
        return [
            OperatorPlace(
                id=op.id,
                name=op.name or op.label,
                module=op.module,
                stage=stage_of[op.id],
                device=", ".join(plan.stages[stage_of[op.id]].devices),
                time=op.times[kinds[plan.stages[stage_of[op.id]].kind]],
                memory_bytes=op.memory_bytes,
            )
            for op in problem.operators
        ]

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
        return {
            "load": row.evaluation.objective,
            "pipeline": pipeline_document(result.problem, row.plan, row.evaluation),
            "step": step_document(result.problem, row.plan, row.evaluation),
        }

    def result_document(self, result: ThroughputResult) -> dict[str, Any]:
        """A batch as it runs."""
        return {"step": step_document(result.problem, result.plan, result.evaluation)}

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


def stage_modules(problem: ThroughputProblem, plan: Plan) -> list[PartModules]:
    """Modules of every stage; empty where the problem has no module names."""
    stage_of = {identity: number for number, stage in enumerate(plan.stages) for identity in stage.operators}
    forward = ((stage_of[op.id], op.module) for op in problem.operators if not op.backward)
    return part_modules(forward, len(plan.stages))


def _stage_table(problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> Table:
    unit, modules = problem.unit, stage_modules(problem, plan)
    named = any(entry.complete or entry.partial for entry in modules)
    table = _device_table("Stages", ("operators", "compute", "communication", "load"), "modules" if named else "")
    for number, (stage, entry) in enumerate(zip(evaluation.stages, plan.stages, strict=True)):
        worst = number == evaluation.bottleneck
        table.add_row(
            str(number),
            stage.device,
            *([", ".join(shortened(modules[number]))] if named else []),
            str(len(entry.operators)),
            format_time(stage.compute, unit),
            format_time(stage.communication, unit),
            format_time(stage.load, unit) + (" ◀" if worst else ""),
            style="bold" if worst else None,
        )
    return table


def _memory_table(evaluation: Evaluation) -> Table:
    shown = [part for part in StageMemory().parts if any(stage.memory.parts[part] for stage in evaluation.stages)]
    several = any(stage.in_flight > 1 for stage in evaluation.stages)
    table = _device_table("Memory per device", (*shown, *(("in flight",) if several else ()), "total", "limit"))
    for number, stage in enumerate(evaluation.stages):
        table.add_row(
            str(number),
            stage.device,
            *(format_bytes(stage.memory.parts[part]) for part in shown),
            *([str(stage.in_flight)] if several else []),
            format_bytes(stage.memory.total),
            format_bytes(stage.memory.limit),
        )
    return table


def _device_table(title: str, figures: Sequence[str], words: str = "") -> Table:
    """An empty table with a row for each device in use."""
    table = new_table(title, ("#",))
    table.add_column("device", no_wrap=True)
    if words:
        table.add_column(words, overflow="fold", ratio=1)
    for column in figures:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def limits(problem: ThroughputProblem, evaluation: Evaluation, without_memory: float | None = None) -> dict[str, Any]:
    """What binds a plan, as plain values; ``without_memory`` is the objective of one without memory limits, if known.

    ``stage`` is the index of the bottleneck stage, ``binding`` is ``work``, ``communication`` or ``memory``, and
    ``sentences`` are the reasons in words, most important first.
    """
    number = evaluation.bottleneck
    stage = evaluation.stages[number]
    unit = problem.unit
    share = stage.communication / stage.load if stage.load > 0 else 0.0
    gain = 0.0 if without_memory is None else 1 - without_memory / evaluation.objective
    binding = "memory" if gain > 1e-3 else "communication" if share > 0.5 else "work"
    sentences = [
        f"stage {number} on {stage.device} is the bottleneck: {format_time(stage.load, unit)}, of which "
        f"{1 - share:.1%} is work and {share:.1%} communication; {binding} binds"
    ]
    balance = _perfect_balance(problem)
    if balance is not None:
        above = evaluation.objective / balance - 1
        sentences.append(
            f"perfectly divisible work without communication would take {format_time(balance, unit)} per device; "
            f"the plan is {above:.2%} above that"
        )
    full = [(s.memory.total / s.memory.limit, i) for i, s in enumerate(evaluation.stages) if s.memory.limit]
    if full:
        fullest, where = max(full)
        memory = evaluation.stages[where].memory
        sentence = f"the fullest memory is stage {where}: {format_bytes(memory.total)} of {format_bytes(memory.limit)}"
        if gain > 1e-3:
            sentence += f"; without memory limits the plan would be {gain:.1%} faster"
        elif without_memory is not None:
            sentence += "; a plan without memory limits would not be faster"
        elif fullest < MEMORY_FULL:
            sentence += f" ({fullest:.0%}), so memory does not bind"
        sentences.append(sentence)
    return {"stage": number, "binding": binding, "sentences": sentences}


def _perfect_balance(problem: ThroughputProblem) -> float | None:
    """Total work over the accelerators' joint speed; only where every operator keeps its speed ratio is it exact."""
    place, *others = problem.present
    kind = problem.kinds[place]
    if others or not kind.accelerator:
        return None
    again = problem.schedule.recompute and problem.training
    times = [(op.times[place], 1 + (again and not op.backward)) for op in problem.operators]
    work = sum(math.inf if time is None else time * runs for time, runs in times)
    return work / kind.count if 0 < work < math.inf else None
