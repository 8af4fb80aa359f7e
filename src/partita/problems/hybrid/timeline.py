"""What happens when a hybrid plan runs, what it asks of devices, and one training step beside what the formula says."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from partita.ground.errors import InputError, UnsupportedError
from partita.nouns.pipeline import Plan
from partita.problems.facets.stages import Staging
from partita.problems.facets.timeline import RunRequest, TimeLine
from partita.problems.hybrid.evaluation import HybridEvaluation, StepTime, configuration_of
from partita.problems.hybrid.kind import HybridKind
from partita.problems.hybrid.layer import Configuration, Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.simulator.pipeline import Pipeline
from partita.simulator.program import Program
from partita.simulator.schedules import find_schedule
from partita.simulator.stages import staged_program
from partita.simulator.steps import StepSummary


@dataclass(frozen=True)
class SimulatedStep:
    """One step, in the problem's unit of time."""

    microbatches: int  #: Microbatches of the batch (N).
    samples: int  #: Samples of each.
    summary: StepSummary  #: The step as it runs under 1F1B.
    formula: StepTime  #: What the formula says of it.

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


class HybridTimeLine(TimeLine[HybridProblem, Plan, HybridEvaluation]):
    """Stages under 1F1B unless another schedule is asked for."""

    kind: HybridKind

    def program(self, problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation, request: RunRequest) -> Program:
        return hybrid_program(partial(self.kind.lowered, problem, plan, evaluation), problem, plan, request)

    def expected(
        self, problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation, program: Program
    ) -> Mapping[str, float]:
        if program.microbatches != problem.microbatches or program.schedule != plan.schedule:
            return {}
        return self.formulas(problem, plan, evaluation)

    @abstractmethod
    def formulas(self, problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> Mapping[str, float]:
        """What formulas say of a plan that runs as planned, by name."""

    def holdings(
        self, problem: HybridProblem, plan: Plan, program: Program, place: int
    ) -> Sequence[tuple[str, float, bool]]:
        """Layers with their state, and with what they keep of each microbatch in flight."""
        stage, found = plan.stages[place], []
        there, state = self.states(problem, plan, place)
        layers = {layer.id: layer for layer in there.layers}
        for identity in stage.operators:
            layer = layers[identity]
            choice = configuration_of(layer, place, stage)
            name = layer.name or f"layer {identity}"
            found += [(f"{name}: state", state(layer, choice), False)]
            found += [(f"{name}: activations", choice.memory_per_microbatch_bytes, True)]
        return found

    @abstractmethod
    def states(
        self, problem: HybridProblem, plan: Plan, place: int
    ) -> tuple[HybridProblem, Callable[[Layer, Configuration], float]]:
        """The problem on a stage's devices, and what each of these holds of a layer, whatever is in flight."""


def hybrid_program(
    lowered: Callable[..., Pipeline], problem: HybridProblem, plan: Plan, request: RunRequest
) -> Program:
    """What happens when a plan runs, given what it is lowered by; InputError if it cannot run, or not as asked."""
    schedule = find_schedule(request.schedule or plan.schedule)
    microbatches = problem.microbatches if request.microbatches is None else request.microbatches
    if not schedule.training:
        raise InputError(f"schedule {schedule.name} is for inference, and hybrid plans are for training")
    return staged_program(
        lowered(behind=request.weight_sync == "behind"),
        schedule,
        microbatches,
        chunks=request.chunks,
        contention=request.contention,
        interval=request.interval,
    )


class HybridStages(Staging[HybridProblem, Plan, HybridEvaluation]):
    """Work, weights and edges of every stage.

    What a stage moves inside its groups for tensors of other stages is part of its work, at the problem's bandwidth;
    so is what groups move that share out a sequence or experts, which stay neighbours.
    """

    kind: HybridKind

    def staged(self, problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> Pipeline:
        if problem.unit != "s":
            raise InputError(
                f"problem {problem.name!r} counts time in {problem.unit}, not in seconds, so bandwidths of a topology "
                "mean nothing to it; only plans of models can be placed"
            )
        first = plan.stages[0]
        replica, experts = (
            first.context_parallel * first.tensor_parallel,
            first.shared.experts_on(first.tensor_parallel),
        )
        if max(replica, experts) % min(replica, experts):
            raise InputError(
                f"{problem.name}: {replica} devices share out a sequence and {experts} share out experts; where "
                "neither number divides the other, they make no blocks that could be placed"
            )
        if problem.others:
            raise UnsupportedError(f"{problem.name}: plans for several kinds of devices are not placed on topologies")
        return self.kind.lowered(problem, plan, evaluation)
