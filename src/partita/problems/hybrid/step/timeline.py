"""What happens when a plan of a step runs; the step is the objective itself, which tests hold against simulations."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from partita.nouns.pipeline import Plan
from partita.problems.facets.timeline import Remembered
from partita.problems.hybrid.evaluation import HybridEvaluation, StepEvaluation
from partita.problems.hybrid.layer import Configuration, Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.evaluate import meshes_of
from partita.problems.hybrid.timeline import HybridTimeLine, SimulatedStep
from partita.simulator.steps import StepSummary


def _simulated(problem: HybridProblem, plan: Plan, evaluation: StepEvaluation) -> SimulatedStep:
    step, devices = evaluation.step, plan.device_count
    idle = step.bubble * step.step * devices
    found = StepSummary(step.step, step.pipeline, step.weight_sync, step.update, idle, devices)
    return SimulatedStep(problem.microbatches, problem.microbatch_samples, found, step)


simulated_step: Remembered[HybridProblem, Plan, StepEvaluation] = Remembered(_simulated)


class StepTimeLine(HybridTimeLine):
    """What replicas share out of the state depends on the mesh."""

    def formulas(self, problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> Mapping[str, float]:
        return {"the step": evaluation.objective}

    def states(
        self, problem: HybridProblem, plan: Plan, place: int
    ) -> tuple[HybridProblem, Callable[[Layer, Configuration], float]]:
        mesh = meshes_of(problem, plan)[place]
        return mesh.problem, lambda layer, choice: mesh.exchanges.held([mesh.place[layer.id]]) + choice.memory_bytes
