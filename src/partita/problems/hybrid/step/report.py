"""A plan of a step, for people."""

from __future__ import annotations

from typing import Any

from partita.ground.units import format_time
from partita.nouns.pipeline import Plan, Stage, zero_text
from partita.problems.facets.model import ModelPlan
from partita.problems.hybrid.evaluation import HybridEvaluation, StepEvaluation
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.report.report import HybridReport
from partita.problems.hybrid.report.tables import degrees_text
from partita.problems.hybrid.step.free_stages import is_uniform
from partita.problems.hybrid.step.runtimes import runtimes_of
from partita.problems.hybrid.timeline import SimulatedStep, step_parts


class StepReport(HybridReport):
    """What the step consists of, which runtimes run it, and what uniformity costs."""

    def per(self, problem: HybridProblem) -> str:
        return " per step"

    def verdict(self, problem: HybridProblem, evaluation: HybridEvaluation) -> dict[str, Any]:
        assert isinstance(evaluation, StepEvaluation)
        return {"step": step_parts(evaluation.step, problem.microbatch_samples)}

    def mesh_of(self, problem: HybridProblem) -> str:
        return problem.step.mesh

    def further_document(self, answer: ModelPlan[HybridProblem], evaluation: HybridEvaluation) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if _uniformity_known(answer.problem):
            found["uniformity_loss_at_most"] = uniformity_loss(answer, evaluation.objective)
        return found | {"runtimes": list(runtimes_of(answer))}

    def step_sentences(self, answer: ModelPlan[HybridProblem], plan: Plan, step: SimulatedStep) -> list[str]:
        problem, unit = answer.problem, answer.problem.unit
        each, formula = plan.stages[0], step.formula
        ends = formula.pipeline - (formula.steady - formula.weight_sync)
        parts = "" if plan.chunks == 1 else f" with {plan.chunks} parts of each stage"
        shares = "" if plan.zero == 0 else f", {zero_text(plan.zero, plan.zero_shards)}"
        size = problem.microbatch_samples
        samples = f"{size} sample" + ("s" if size > 1 else "")
        called, loss = degrees_text(plan), ""
        if is_uniform(plan):
            called = f"runtimes call it tensor {each.tensor_parallel}, pipeline {len(plan.stages)}, data "
            called += f"{each.data_parallel}{_further(problem, each)}"
        if _uniformity_known(problem):
            spared = uniformity_loss(answer, step.step)
            loss = f"; stages with degrees of their own would be at most {spared:.1%} faster"
        return [
            f"{step.microbatches} microbatches of {samples} take {format_time(step.step, unit)}: "
            f"{format_time(formula.pipeline, unit)} from the first forward to the last backward part, "
            f"{format_time(ends, unit)} of it to fill and drain, {format_time(formula.weight_sync, unit)} for replicas "
            f"to exchange what the pipeline does not hide, {format_time(formula.update, unit)} for the optimizer",
            f"{called}; schedule {plan.schedule}{parts}{shares}{loss}",
            f"it runs in {_listed(runtimes_of(answer)) or 'no runtime that is known here'}",
            self.used(answer, step),
        ]


def _uniformity_known(problem: HybridProblem) -> bool:
    """Whether plans are uniform meshes, on devices of one kind, so that degrees of each stage's own might be better."""
    return problem.step.mesh == "uniform" and not problem.others


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
    work = sum(problem.least_device_times().values())
    return max(0.0, 1.0 - problem.microbatches * work / problem.devices / step)


def _further(problem: HybridProblem, stage: Stage) -> str:
    """Context, expert and expert-tensor degrees, where there is a choice of them."""
    training = problem.step
    shown = (("context", training.context, stage.context_parallel), ("expert", training.expert, stage.expert_parallel))
    found = "".join(f", {name} {degree}" for name, allowed, degree in shown if degree > 1 or len(allowed) > 1)
    return found + (f", expert-tensor {stage.expert_tensor_parallel}" if stage.expert_tensor_parallel else "")


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
