"""What a person reads of a model's hybrid plan: stages with their layers, the step, the numbers of microbatches."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from partita.problems.hybrid.evaluate import HybridEvaluation
from partita.problems.hybrid.plan import HybridPlan, HybridStage
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.report.degrees import degrees_text
from partita.problems.hybrid.report.plan_table import stage_table
from partita.problems.hybrid.report.utilisation import utilisation
from partita.problems.hybrid.step_time import step_time
from partita.tables.text import module_ranges, new_table
from partita.units import format_time

if TYPE_CHECKING:
    from rich.table import Table

    from partita.problems.facets.model import Answer


def configuration_ranges(problem: HybridProblem, stage: HybridStage) -> list[tuple[str, str]]:
    """The stage's layers as ranges that share a configuration: (``model.layers.0-3``, ``full``), in order."""
    names = {layer.id: layer.name or f"layer {layer.id}" for layer in problem.layers}
    runs = itertools.groupby(stage.operators, key=lambda identity: stage.configurations[identity])
    return [(", ".join(module_ranges([names[v] for v in layers])), choice) for choice, layers in runs]


def hybrid_stage_table(problem: HybridProblem, plan: HybridPlan, evaluation: HybridEvaluation) -> Table:
    """One row per stage: degrees, layers with the way each range runs, time per sample, memory of each device."""

    def ways(stage: HybridStage) -> str:
        return "; ".join(f"{layers}: {choice}" for layers, choice in configuration_ranges(problem, stage))

    title = f"Stages: {plan.devices} of {problem.devices} devices"
    return stage_table(title, problem, plan, evaluation, "layers: recomputation", ways)


def step_sentences(answer: Answer[HybridProblem]) -> list[str]:
    """How long a step takes, what of, and whether a shorter one is known."""
    result, problem = answer.result, answer.problem
    if result.plan is None or result.evaluation is None:
        return []
    step, unit = step_time(problem, result.plan, result.evaluation), problem.unit
    found = [
        f"{step.microbatches} microbatches take {format_time(step.step, unit)}, {format_time(step.per_sample, unit)} "
        f"each: {format_time(step.pipeline, unit)} from the first forward to the last backward part, "
        f"{format_time(step.weight_sync, unit)} to synchronise weights, {format_time(step.update, unit)} for the "
        f"optimizer; {step.bubble:.1%} of the step is beyond the steady state",
        f"in the steady state a microbatch takes {format_time(result.evaluation.objective, unit)}",
        f"model FLOPs utilisation: {utilisation(answer, step.per_sample):.1%} with the whole step, "
        f"{utilisation(answer, result.evaluation.objective):.1%} in the steady state",
    ]
    if answer.other is not None:
        faster = step_time(problem, answer.other.plan, answer.other.evaluation)
        found.append(
            f"a shorter step is known: {degrees_text(answer.other.plan)} takes {format_time(faster.per_sample, unit)} "
            f"per microbatch, {1 - faster.step / step.step:.1%} less; --minimise step plans for that"
        )
    if answer.priced.settings.minimise == "step":
        found.append("this plan was chosen for its step; the bound is one of the steady state, so of every step, too")
    return found


def batch_table(answer: Answer[HybridProblem]) -> Table:
    """Every number of microbatches that was tried."""
    columns = ("microbatches", "per sample", "with bubble", "bubble")
    table = new_table("Microbatches tried", columns, "stages and degrees")
    unit = answer.problem.unit
    for priced, result in answer.tried:
        number = priced.problem.microbatches
        if result.plan is None or result.evaluation is None:
            table.add_row(str(number), "—", "—", "—", str(result.status))
            continue
        step = step_time(priced.problem, result.plan, result.evaluation)
        chosen = number == answer.problem.microbatches
        table.add_row(
            str(number),
            format_time(result.evaluation.objective, unit),
            format_time(step.per_sample, unit) + (" ◀" if chosen else ""),
            f"{step.bubble:.0%}",
            degrees_text(result.plan),
            style="bold" if chosen else None,
        )
    return table
