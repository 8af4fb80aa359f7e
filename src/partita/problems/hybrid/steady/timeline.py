"""What happens when a plan for the time per sample runs, and one training step of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan
from partita.problems.facets.timeline import Remembered, RunRequest
from partita.problems.hybrid.evaluation import HybridEvaluation
from partita.problems.hybrid.layer import Configuration, Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.steady.evaluate import step_time
from partita.problems.hybrid.steady.lowered import lowered
from partita.problems.hybrid.timeline import HybridTimeLine, SimulatedStep, hybrid_program
from partita.simulator.program import Program
from partita.simulator.steps import step_summary


def _simulated(problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> SimulatedStep | None:
    def make(microbatches: int) -> Program:
        request = RunRequest(microbatches=microbatches)
        return hybrid_program(partial(lowered, problem, plan, evaluation), problem, plan, request)

    try:
        found = step_summary(make, problem.microbatches)
    except InputError:
        # Plans that break limits may run all the same; this one does not.
        return None
    return SimulatedStep(problem.microbatches, problem.microbatch_samples, found, step_time(problem, plan, evaluation))


simulated_step: Remembered[HybridProblem, Plan, HybridEvaluation] = Remembered(_simulated)


class SteadyTimeLine(HybridTimeLine):
    """Weights, gradients and optimizer states are part of the configurations."""

    def formulas(self, problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> Mapping[str, float]:
        return {
            "the step": step_time(problem, plan, evaluation).step,
            "a microbatch in the steady state": evaluation.objective,
        }

    def states(
        self, problem: HybridProblem, plan: Plan, place: int
    ) -> tuple[HybridProblem, Callable[[Layer, Configuration], float]]:
        replicas = plan.stages[place].data_parallel
        return problem, lambda layer, choice: choice.held_bytes(0, replicas)
