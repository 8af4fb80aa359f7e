"""What a plan of either objective is worth, and how its stages and configurations are looked up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partita.engines.search.result import PlanEvaluation
from partita.ground.checks import check_at_least, check_number
from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan, Stage
from partita.problems.assignment import stage_of_each
from partita.problems.hybrid.layer import Configuration, Layer
from partita.problems.hybrid.problem import HybridProblem


@dataclass(frozen=True)
class StepTime:
    """One step, in the problem's unit of time."""

    microbatches: int  #: Microbatches of the batch (N).
    pipeline: float  #: From the first forward to the last backward part.
    weight_sync: float  #: Synchronisation of the weights at the end; 0 where it is part of every stage's time.
    update: float  #: The optimizer's step; 0 where it is not known.
    steady: float  #: N times the objective: what the batch would take in an endless stream of batches.

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
    """What one stage costs its devices. With a hierarchy, d = d_1·d_2: replicas in a machine times machines."""

    compute: float  #: Time of its layers per sample, P/d.
    transfer: float  #: Time per microbatch for tensors that enter or leave it, E/(d·B).
    #: Time per microbatch to synchronise its weights, 4·(d − 1)·W/(d·d·B), or with N for one d once per batch. With a
    #: hierarchy only inside machines: 4·(d_1 − 1)·W/(d_1·d·B_1), or 4·(d_1 − 1)·W/(d_1·N·B_1) once per batch.
    weight_sync: float
    memory_bytes: float  #: Memory that each of its devices needs.
    #: Microbatches that each of its replicas holds, ⌈s/d⌉, s counting the replicas of this and all later stages.
    in_flight: int

    @property
    def time_per_microbatch(self) -> float:
        """The stage's time per microbatch."""
        return self.compute + self.transfer + self.weight_sync


@dataclass(frozen=True)
class MachineGroupEvaluation:
    """What the stages that share machines exchange with other machines."""

    machines: int  #: Machines of the group (d_2).
    transfer: float  #: Time per microbatch for tensors that enter or leave the group, Σ 2·bytes/(d_2·B_2).
    #: Time per microbatch to synchronise whole layers between its machines, 4·(d_2 − 1)·W/(d_2·d_2·B_2), or with N for
    #: one d_2 once per batch.
    weight_sync: float

    @property
    def time_per_microbatch(self) -> float:
        """Time per microbatch that each machine's link is busy."""
        return self.transfer + self.weight_sync


class HybridEvaluation(PlanEvaluation, frozen=True, kw_only=True):
    """What a plan is worth: the time of a microbatch on the slowest stage or the busiest machine's link."""

    stages: tuple[HybridStageEvaluation, ...]  #: One entry per stage of the plan.
    #: One entry per machine group; empty without a hierarchy, and for a step.
    machine_groups: tuple[MachineGroupEvaluation, ...] = ()

    @property
    def slowest(self) -> float:
        """Time per microbatch of the slowest stage."""
        return max(stage.time_per_microbatch for stage in self.stages)

    @property
    def per_microbatch(self) -> float:
        """The objective as the time of a microbatch."""
        return self.objective

    @property
    def beyond(self) -> dict[str, float]:
        """By name what of that is more than the slowest stage takes."""
        return {"links": self.objective - self.slowest}


class StepEvaluation(HybridEvaluation, frozen=True, kw_only=True):
    """What a plan of a step is worth: the time of the whole step, of which ``step`` says the parts."""

    step: StepTime

    @property
    def per_microbatch(self) -> float:
        return self.step.per_microbatch

    @property
    def beyond(self) -> dict[str, float]:
        update = self.step.update / self.step.microbatches
        return {"bubble": self.per_microbatch - self.slowest - update, "update": update}


def stages_of_layers(problem: HybridProblem, plan: Plan) -> dict[int, int]:
    """The stage of each layer, by id; plans that are no plans of the problem are refused."""
    for number, stage in enumerate(plan.stages):
        if stage.chunks and sorted(identity for part in stage.chunks for identity in part) != sorted(stage.operators):
            raise InputError(f"plan stage {number}: its chunks do not hold each of its operators once")
        if not stage.operators:
            raise InputError(f"plan stage {number} has no operators; leave it out")
        for field in ("data_parallel", "tensor_parallel", "context_parallel", "expert_parallel"):
            check_at_least(f"plan stage {number}: {field}", getattr(stage, field))
        check_number(f"plan stage {number}", "expert_tensor_parallel", stage.expert_tensor_parallel)
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


def configurations_of(problem: HybridProblem, plan: Plan) -> dict[int, Configuration]:
    """What each layer runs, by id; InputError if it has no such configuration."""
    tables = {stage.kind: {layer.id: layer for layer in problem.on(stage.kind).layers} for stage in plan.stages}
    return {
        identity: configuration_of(tables[stage.kind][identity], number, stage)
        for number, stage in enumerate(plan.stages)
        for identity in stage.operators
    }


def configuration_of(layer: Layer, number: int, stage: Stage) -> Configuration:
    """What a layer runs in a stage, which has that number."""
    name = stage.configurations.get(layer.id)
    for choice in layer.configurations.get(stage.tensor_parallel, ()):
        if choice.id == name:
            return choice
    raise InputError(
        f"plan stage {number}: {layer.label} has no configuration {name!r} of degree {stage.tensor_parallel}; such a "
        "plan cannot run"
    )


def stage_name(layers: Sequence[Layer]) -> str:
    """For people: a stage's first and last layer."""
    names = [layer.name or f"layer {layer.id}" for layer in layers]
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"


def replica_starts(problem: HybridProblem, stages: Sequence[Stage]) -> list[list[int]]:
    """First device of each replica of every stage, numbered along the stages.

    Stages of a machine group share its machines, and replica r is on machine r mod (machines of the group).
    """
    found: list[list[int]] = []
    machines = first = 0
    for number, stage in enumerate(stages):
        if number and stage.machine_group != stages[number - 1].machine_group:
            machines, first = machines + (stages[number - 1].machines or 1), 0
        width, shared = stage.device_count // stage.data_parallel, stage.machines or 1
        found.append(
            [
                (machines + replica % shared) * problem.devices_per_machine + first + replica // shared * width
                for replica in range(stage.data_parallel)
            ]
        )
        first += stage.replicas_per_machine * width
    return found


def replica_devices(problem: HybridProblem, stages: Sequence[Stage]) -> list[tuple[tuple[str, ...], ...]]:
    """The names of the devices of every replica of every stage, as a pipeline numbers them."""
    widths = (range(stage.device_count // stage.data_parallel) for stage in stages)
    return [
        tuple(tuple(f"device:{start + k}" for k in width) for start in starts)
        for width, starts in zip(widths, replica_starts(problem, stages), strict=True)
    ]
