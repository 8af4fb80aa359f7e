"""A plan for the time per sample, and the step that it makes, for people."""

from __future__ import annotations

from partita.ground.units import format_time
from partita.nouns.pipeline import Plan
from partita.problems.facets.model import ModelPlan
from partita.problems.facets.report import per_microbatch
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.report.report import HybridReport
from partita.problems.hybrid.report.tables import degrees_text
from partita.problems.hybrid.timeline import SimulatedStep


class SteadyReport(HybridReport):
    """The step is simulated, and a shorter one may be known."""

    per_sample = True

    def per(self, problem: HybridProblem) -> str:
        return per_microbatch(problem.microbatch_samples)

    def step_sentences(self, answer: ModelPlan[HybridProblem], plan: Plan, step: SimulatedStep) -> list[str]:
        problem, parts, formula = answer.problem, step.summary, step.formula
        unit = problem.unit
        found = [
            f"{step.microbatches} microbatches take {format_time(step.step, unit)} (simulated, 1F1B), "
            f"{format_time(step.per_microbatch, unit)} each: {format_time(parts.pipeline, unit)} from the first "
            f"forward to the last backward part, {format_time(parts.weight_sync, unit)} more to synchronise weights, "
            f"{format_time(parts.update, unit)} for the optimizer; devices wait for {step.bubble:.1%} of the step",
            f"in the steady state a microbatch takes {format_time(formula.steady / step.microbatches, unit)}",
            self.used(answer, step),
        ]
        if step.differs:
            found.insert(
                1,
                f"the formula says {format_time(formula.step, unit)}: the sum of all stages, the rest of the batch "
                f"on the slowest, the longest synchronisation and update ({formula.step / step.step - 1:+.1%})",
            )
        if answer.other is not None:
            faster = self.kind.simulated_step(problem, answer.other.plan, answer.other.evaluation)
            each = format_time(faster.per_microbatch, unit)
            found.append(
                f"a shorter step is known: {degrees_text(answer.other.plan)} takes {each} "
                f"per microbatch, {1 - faster.step / step.step:.1%} less; --minimise step plans for that"
            )
        return found
