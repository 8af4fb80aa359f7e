"""A throughput plan as it runs, in a few numbers, beside what formulas say of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan
from partita.problems.facets.timeline import Remembered, RunRequest
from partita.problems.throughput.evaluation import Evaluation
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.programs import program_of
from partita.problems.throughput.running import Run
from partita.problems.throughput.sample_latency import SampleLatency, sample_latency
from partita.simulator.program import Program
from partita.simulator.simulate import simulate
from partita.simulator.steps import StepSummary, step_summary

#: Microbatches that pass before the one whose latency is looked at, for each round of the pipeline.
_ROUNDS = 4


@dataclass(frozen=True)
class SimulatedPipeline:
    """A plan as it runs, in the problem's time unit.

    Attributes
    ----------
    formula
        What the rounds of the pipeline say.
    latency
        Time of one microbatch when the pipeline is full: inference with one every period, training in the middle of a
        batch.
    latency_alone
        Time of one microbatch when no other is in flight.
    schedule, microbatches
        How a batch runs.
    samples
        Samples in a microbatch.
    step
        What it takes.
    """

    formula: SampleLatency
    latency: float
    latency_alone: float
    schedule: str
    microbatches: int
    samples: int
    step: StepSummary

    def document(self) -> dict[str, Any]:
        """The pipeline as plain values; what formulas say of latencies is beside what happens."""
        found: dict[str, Any] = msgspec.structs.asdict(self.formula)
        said = {name: found[name] for name in ("latency", "latency_alone")}
        return found | {"latency": self.latency, "latency_alone": self.latency_alone, "formula": said}

    def step_document(self) -> dict[str, Any]:
        """A batch as plain values."""
        found = asdict(self.step)
        del found["idle"], found["devices"]
        each = self.step.time / self.microbatches
        return {
            "schedule": self.schedule,
            "microbatches": self.microbatches,
            **found,
            "time_per_microbatch": each,
            "time_per_sample": each / self.samples,
            "bubble": self.step.bubble,
        }


def _simulated(problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> SimulatedPipeline | None:
    formula = sample_latency(problem, plan, evaluation)
    run = Run(problem, plan, evaluation)

    def make(microbatches: int, interval: float = 0.0) -> Program:
        return program_of(run, msgspec.structs.replace(RunRequest(), microbatches=microbatches, interval=interval))

    try:
        alone = simulate(make(1))
        usual = run.usual_microbatches
        step = step_summary(make, usual)
    except InputError:
        # Plans that break limits may run all the same; this one does not.
        return None
    if problem.training:
        passed = simulate(make(min(usual, 2 * _ROUNDS * formula.depth))).latencies
        latency = float(passed[len(passed) // 2])
    else:
        passed = simulate(make(_ROUNDS * formula.depth, evaluation.objective)).latencies
        latency = float(passed[len(passed) // 2 :].max())
    samples, order = problem.microbatch_samples, alone.program.schedule
    return SimulatedPipeline(formula, latency, float(alone.latencies[0]), order, usual, samples, step)


#: A plan as it runs; None if it cannot run at all.
simulated_pipeline: Remembered[ThroughputProblem, Plan, Evaluation] = Remembered(_simulated)
