"""One training step of a hybrid plan as it runs, beside what the formula says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan
from partita.problems.facets.timeline import Remembered, RunRequest
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step_time import step_time
from partita.problems.hybrid.timeline import hybrid_program
from partita.problems.hybrid.worth import HybridEvaluation, StepTime
from partita.simulator.steps import StepSummary, step_summary


@dataclass(frozen=True)
class SimulatedStep:
    """One step, in the problem's unit of time.

    Attributes
    ----------
    microbatches
        Microbatches of the batch (N).
    samples
        Samples of each.
    summary
        The step as it runs under 1F1B.
    formula
        What the formula says of it.
    """

    microbatches: int
    samples: int
    summary: StepSummary
    formula: StepTime

    @property
    def step(self) -> float:
        """The whole step."""
        return self.summary.time

    @property
    def per_microbatch(self) -> float:
        """The step divided by its microbatches, to compare with the objective."""
        return self.step / self.microbatches

    @property
    def per_sample(self) -> float:
        """The step divided by all samples of its batch."""
        return self.per_microbatch / self.samples

    @property
    def bubble(self) -> float:
        """Share of the devices' time in which they wait."""
        return self.summary.bubble

    @property
    def differs(self) -> bool:
        """Whether the formula says something else of the whole step, so that it can be seen in three digits."""
        return abs(self.formula.step - self.step) > 1e-3 * max(self.step, self.formula.step)

    def document(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "microbatches": self.microbatches,
            "time": self.step,
            "time_per_microbatch": self.per_microbatch,
            "time_per_sample": self.per_sample,
            "pipeline": self.summary.pipeline,
            "weight_sync": self.summary.weight_sync,
            "update": self.summary.update,
            "bubble": self.bubble,
            "formula": step_parts(self.formula, self.samples),
        }


def step_parts(step: StepTime, samples: int) -> dict[str, Any]:
    """A step by formula, as plain values, of microbatches of so many samples."""
    return {
        "time": step.step,
        "time_per_microbatch": step.per_microbatch,
        "time_per_sample": step.per_microbatch / samples,
        "pipeline": step.pipeline,
        "weight_sync": step.weight_sync,
        "update": step.update,
        "bubble": step.bubble,
    }


def _simulated(problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> SimulatedStep | None:
    if evaluation.step is not None:
        # The objective itself; tests hold it against simulations.
        step, devices = evaluation.step, plan.device_count
        idle = step.bubble * step.step * devices
        found = StepSummary(step.step, step.pipeline, step.weight_sync, step.update, idle, devices)
        return SimulatedStep(problem.microbatches, problem.microbatch_samples, found, step)

    def make(microbatches: int) -> Any:
        return hybrid_program(
            problem, plan, evaluation, msgspec.structs.replace(RunRequest(), microbatches=microbatches)
        )

    try:
        found = step_summary(make, problem.microbatches)
    except InputError:
        # Plans that break limits may run all the same; this one does not.
        return None
    return SimulatedStep(problem.microbatches, problem.microbatch_samples, found, step_time(problem, plan, evaluation))


#: The step of a plan; None if it cannot run at all.
simulated_step: Remembered[HybridProblem, Plan, HybridEvaluation] = Remembered(_simulated)
