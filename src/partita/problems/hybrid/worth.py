"""What a hybrid plan is worth, and how its stages are looked up: shared by both objectives."""

from __future__ import annotations

from dataclasses import dataclass

from partita.engines.search.result import PlanEvaluation
from partita.ground.checks import check_at_least
from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan, Stage
from partita.problems.assignment import stage_of_each
from partita.problems.hybrid.problem import Configuration, HybridProblem


@dataclass(frozen=True)
class StepTime:
    """One step, in the problem's unit of time.

    Attributes
    ----------
    microbatches
        Microbatches of the batch (N).
    pipeline
        From the first forward to the last backward part.
    weight_sync
        Synchronisation of the weights at the end; 0 where it is part of every stage's time.
    update
        The optimizer's step; 0 where it is not known.
    steady
        N times the objective: what the batch would take in an endless row of batches.
    """

    microbatches: int
    pipeline: float
    weight_sync: float
    update: float
    steady: float

    @property
    def step(self) -> float:
        """The whole step."""
        return self.pipeline + self.weight_sync + self.update

    @property
    def per_microbatch(self) -> float:
        """The step divided by its microbatches, to compare with the objective."""
        return self.step / self.microbatches

    @property
    def bubble(self) -> float:
        """Share of the step for filling, draining and uneven turns: all beyond the steady state and the update."""
        return max(0.0, self.step - self.update - self.steady) / self.step if self.step > 0 else 0.0


@dataclass(frozen=True)
class HybridStageEvaluation:
    """What one stage costs its devices. With a hierarchy, d = d_1·d_2: replicas in a machine times machines.

    Attributes
    ----------
    compute
        Time of its layers per sample, P/d.
    transfer
        Time per microbatch for tensors that enter or leave it, E/(d·B).
    weight_sync
        Time per microbatch to synchronise its weights, 4·(d − 1)·W/(d·d·B), or with N for one d once per batch. With a
        hierarchy only inside machines: 4·(d_1 − 1)·W/(d_1·d·B_1), or 4·(d_1 − 1)·W/(d_1·N·B_1) once per batch.
    memory_bytes
        Memory that each of its devices needs.
    in_flight
        Microbatches that each of its replicas holds, ⌈s/d⌉, s counting the replicas of this and all later stages.
    """

    compute: float
    transfer: float
    weight_sync: float
    memory_bytes: float
    in_flight: int

    @property
    def time_per_microbatch(self) -> float:
        """The stage's time per microbatch."""
        return self.compute + self.transfer + self.weight_sync


@dataclass(frozen=True)
class MachineGroupEvaluation:
    """What the stages that share machines exchange with other machines.

    Attributes
    ----------
    machines
        Machines of the group (d_2).
    transfer
        Time per microbatch for tensors that enter or leave the group, Σ 2·bytes/(d_2·B_2).
    weight_sync
        Time per microbatch to synchronise whole layers between its machines, 4·(d_2 − 1)·W/(d_2·d_2·B_2), or with N
        for one d_2 once per batch.
    """

    machines: int
    transfer: float
    weight_sync: float

    @property
    def time_per_microbatch(self) -> float:
        """Time per microbatch that each machine's link is busy."""
        return self.transfer + self.weight_sync


class HybridEvaluation(PlanEvaluation, frozen=True, kw_only=True):
    """What a plan is worth: a microbatch's time on the slowest stage or the busiest machine's link; or a step's time.

    Attributes
    ----------
    stages
        One entry per stage of the plan.
    machine_groups
        One entry per machine group; empty without a hierarchy, and for a step.
    step
        The parts of a step, if that is the objective.
    """

    stages: tuple[HybridStageEvaluation, ...]
    machine_groups: tuple[MachineGroupEvaluation, ...] = ()
    step: StepTime | None = None


def stages_of_layers(problem: HybridProblem, plan: Plan) -> dict[int, int]:
    """The stage of each layer, by id; plans that are no plans of the problem are refused."""
    for number, stage in enumerate(plan.stages):
        if stage.chunks and sorted(identity for part in stage.chunks for identity in part) != sorted(stage.operators):
            raise InputError(f"plan stage {number}: its chunks do not hold each of its operators once")
        if not stage.operators:
            raise InputError(f"plan stage {number} has no operators; leave it out")
        for field in ("data_parallel", "tensor_parallel", "context_parallel", "expert_parallel"):
            check_at_least(f"plan stage {number}: {field}", getattr(stage, field))
        extra = set(stage.configurations) - set(stage.operators)
        if extra:
            raise InputError(f"plan stage {number}: configurations name layer {min(extra)}, which is not in the stage")
    return stage_of_each(
        [stage.operators for stage in plan.stages], sorted(layer.id for layer in problem.layers), "layer"
    )


def choose(problem: HybridProblem, number: int, stage: Stage, chosen: dict[int, Configuration]) -> list[str]:
    """Look up every layer's configuration; layers that do not have the stage's degree are violations."""
    held = set(stage.operators)
    violations = []
    for layer in problem.layers:
        if layer.id not in held:
            continue
        choices = layer.configurations.get(stage.tensor_parallel, ())
        if not choices:
            violations.append(f"{layer.label} has no configuration of degree {stage.tensor_parallel} (stage {number})")
            continue
        name = stage.configurations.get(layer.id)
        if name is None:
            raise InputError(f"plan stage {number}: there is no configuration for {layer.label}")
        found = [choice for choice in choices if choice.id == name]
        if not found:
            raise InputError(
                f"plan stage {number}: {layer.label} has no configuration {name!r} of degree {stage.tensor_parallel}; "
                f"it has {', '.join(repr(choice.id) for choice in choices)}"
            )
        chosen[layer.id] = found[0]
    return violations
