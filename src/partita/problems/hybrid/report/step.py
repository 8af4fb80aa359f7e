"""A training step of a hybrid plan, in words and as plain values, and how much of the devices' peak it uses."""

from __future__ import annotations

from typing import Any

from partita.ground.units import format_time
from partita.nouns.pipeline import Plan, Stage
from partita.problems.facets.model import ModelPlan
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.report.limits import least_device_times
from partita.problems.hybrid.report.runtimes import runtimes_of
from partita.problems.hybrid.report.tables import degrees_text
from partita.problems.hybrid.simulated_step import simulated_step
from partita.problems.hybrid.step.rows import is_uniform
from partita.problems.hybrid.worth import HybridEvaluation


def utilisation(answer: ModelPlan[Any], time_per_microbatch: float) -> float:
    """Model FLOPs utilisation (``pricing.model_flops``): useful operations over what all devices could do in that time.

    Their peak is that of all accelerators at the number format with the most operations.
    """
    flops: dict[str, float] = {}
    for op in answer.graph.operators:
        flops[op.dtype] = flops.get(op.dtype, 0.0) + op.flops
    dtype = max(flops, key=lambda name: flops[name])
    peak = sum(group.spec.peak(dtype) * len(group.indices) for group in answer.cluster.workers())
    return float(answer.graph.flops) / (time_per_microbatch * peak) if time_per_microbatch > 0 else 0.0


def steady_per_microbatch(evaluation: HybridEvaluation) -> float:
    """Time per microbatch of an endless row of microbatches, synchronisation included."""
    step = evaluation.step
    return float(evaluation.objective) if step is None else step.steady / step.microbatches


def uniformity_known(problem: HybridProblem) -> bool:
    """Whether plans are uniform meshes, on devices of one kind, so that degrees of each stage's own might be better."""
    return problem.training is not None and problem.training.mesh == "uniform" and not problem.others


def uniformity_loss(answer: ModelPlan[HybridProblem], step: float) -> float:
    """The largest share of a step that stages with degrees of their own could spare, by the bound on these.

    Where it is not known: whatever the degrees, all devices together work on every layer for as long as the degree
    takes at which its group's device time is least.
    """
    problem = answer.problem
    if step <= 0:
        return 0.0
    if answer.wider_bound is not None:
        return max(0.0, 1.0 - answer.wider_bound / step)
    work = sum(least_device_times(problem).values())
    return max(0.0, 1.0 - problem.microbatches * work / problem.devices / step)


def step_document(problem: HybridProblem, plan: Plan | None, evaluation: Any) -> dict[str, Any] | None:
    """A plan's step as plain values, in the problem's unit of time; None where none can run."""
    step = None if plan is None else simulated_step(problem, plan, evaluation)
    return None if step is None else step.document()


def step_sentences(answer: ModelPlan[HybridProblem]) -> list[str]:
    """How long a step takes, what of, and whether a shorter one is known; the answer has a plan."""
    result, problem = answer.result, answer.problem
    assert result.plan is not None
    assert result.evaluation is not None
    step, unit = simulated_step(problem, result.plan, result.evaluation), problem.unit
    steady = steady_per_microbatch(result.evaluation)
    parts = step.summary
    if problem.training is not None:
        return _step_parts(answer, step, steady)
    found = [
        f"{step.microbatches} microbatches take {format_time(step.step, unit)} (simulated, 1F1B), "
        f"{format_time(step.per_microbatch, unit)} each: {format_time(parts.pipeline, unit)} from the first forward to "
        f"the last backward part, {format_time(parts.weight_sync, unit)} more to synchronise weights, "
        f"{format_time(parts.update, unit)} for the optimizer; devices wait for {step.bubble:.1%} of the step",
        f"in the steady state a microbatch takes {format_time(steady, unit)}",
        f"model FLOPs utilisation: {utilisation(answer, step.per_microbatch):.1%} with the whole step, "
        f"{utilisation(answer, steady):.1%} in the steady state",
    ]
    if step.differs:
        found.insert(
            1,
            f"the formula says {format_time(step.formula.step, unit)}: the sum of all stages, the rest of the batch on "
            f"the slowest, the longest synchronisation and update ({step.formula.step / step.step - 1:+.1%})",
        )
    if answer.other is not None:
        faster = simulated_step(problem, answer.other.plan, answer.other.evaluation)
        each = format_time(faster.per_microbatch, unit)
        found.append(
            f"a shorter step is known: {degrees_text(answer.other.plan)} takes {each} "
            f"per microbatch, {1 - faster.step / step.step:.1%} less; --minimise step plans for that"
        )
    return found


def _further(problem: HybridProblem, stage: Stage) -> str:
    """Context and expert degrees, where there is a choice of them."""
    training = problem.training
    if training is None:
        return ""
    shown = (("context", training.context, stage.context_parallel), ("expert", training.expert, stage.expert_parallel))
    return "".join(f", {name} {degree}" for name, allowed, degree in shown if degree > 1 or len(allowed) > 1)


def _step_parts(answer: ModelPlan[HybridProblem], step: Any, steady: float) -> list[str]:
    """What the objective consists of, where that is a step."""
    plan, unit = answer.result.plan, answer.problem.unit
    assert plan is not None
    each, formula = plan.stages[0], step.formula
    ends = formula.pipeline - (formula.steady - formula.weight_sync)
    parts = "" if plan.chunks == 1 else f" with {plan.chunks} parts of each stage"
    shares = "" if plan.zero == 0 else f", ZeRO-{plan.zero}"
    size = answer.problem.microbatch_samples
    samples = f"{size} sample" + ("s" if size > 1 else "")
    called, loss = degrees_text(plan), ""
    if is_uniform(plan):
        called = f"runtimes call it tensor {each.tensor_parallel}, pipeline {len(plan.stages)}, data "
        called += f"{each.data_parallel}{_further(answer.problem, each)}"
    if uniformity_known(answer.problem):
        spared = uniformity_loss(answer, step.step)
        loss = f"; stages with degrees of their own would be at most {spared:.1%} faster"
    return [
        f"{step.microbatches} microbatches of {samples} take {format_time(step.step, unit)}: "
        f"{format_time(formula.pipeline, unit)} from the first forward to the last backward part, "
        f"{format_time(ends, unit)} of it to fill and drain, {format_time(formula.weight_sync, unit)} for replicas to "
        f"exchange what the pipeline does not hide, {format_time(formula.update, unit)} for the optimizer",
        f"{called}; schedule {plan.schedule}{parts}{shares}{loss}",
        f"it runs in {_listed(runtimes_of(answer)) or 'no runtime that is known here'}",
        f"model FLOPs utilisation: {utilisation(answer, step.per_microbatch):.1%} with the whole step, "
        f"{utilisation(answer, steady):.1%} in the steady state",
    ]


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
