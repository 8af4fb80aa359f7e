"""The objective and the feasibility of a hybrid plan: the only place where they are defined.

Source: Piper (NeurIPS 2021), §3.4 to §4 and Appendix A; hierarchies are Appendix E's with two levels;
``weight_sync_per_batch`` follows a later version of the published program.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from partita.checks import check_at_least
from partita.errors import InputError
from partita.problems.assignment import stage_of_each
from partita.problems.hybrid.plan import HybridPlan, HybridStage
from partita.problems.hybrid.problem import Configuration, HybridProblem
from partita.run.result import Worth
from partita.units import format_bytes, leq


@dataclass(frozen=True)
class HybridStageEvaluation:
    """What one stage costs its devices. With a hierarchy, d = d_1·d_2: replicas in a machine times machines.

    Attributes
    ----------
    compute
        Time of its layers per sample, P/d.
    transfer
        Time per sample for tensors that enter or leave it, E/(d·B).
    weight_sync
        Time per sample to synchronise its weights, 4·(d − 1)·W/(d·d·B), or with N for one d once per batch. With a
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
    def time_per_sample(self) -> float:
        """The stage's time per sample."""
        return self.compute + self.transfer + self.weight_sync


@dataclass(frozen=True)
class MachineGroupEvaluation:
    """What the stages that share machines exchange with other machines.

    Attributes
    ----------
    machines
        Machines of the group (d_2).
    transfer
        Time per sample for tensors that enter or leave the group, Σ 2·bytes/(d_2·B_2).
    weight_sync
        Time per sample to synchronise whole layers between its machines, 4·(d_2 − 1)·W/(d_2·d_2·B_2), or with N for one
        d_2 once per batch.
    """

    machines: int
    transfer: float
    weight_sync: float

    @property
    def time_per_sample(self) -> float:
        """Time per sample that each machine's link is busy."""
        return self.transfer + self.weight_sync


class HybridEvaluation(Worth, frozen=True, kw_only=True):
    """What a plan is worth: time per sample of the slowest stage, or of the busiest machine's link.

    Attributes
    ----------
    stages
        One entry per stage of the plan.
    machine_groups
        One entry per machine group; empty without a hierarchy.
    """

    stages: tuple[HybridStageEvaluation, ...]
    machine_groups: tuple[MachineGroupEvaluation, ...] = ()


def evaluate(problem: HybridProblem, plan: HybridPlan) -> HybridEvaluation:
    """Objective and feasibility of a plan, from the problem alone.

    Raises
    ------
    InputError
        If the plan is not a plan of this problem: a layer is missing, unknown or placed twice, a stage is empty, a
        degree is below 1, a configuration is unknown, or machines are given without a hierarchy or the other way round.
    """
    stage_of = _assignment(problem, plan)
    violations = _check_machines(problem, plan)
    if plan.devices > problem.devices:
        violations.append(f"the stages use {plan.devices} devices, the problem has {problem.devices}")
    if plan.microbatches > problem.microbatches:
        violations.append(
            f"the data-parallel degrees add up to {plan.microbatches}, "
            f"the batch has {problem.microbatches} microbatches"
        )
    for edge in problem.edges:
        if stage_of[edge.source] > stage_of[edge.target]:
            violations.append(
                f"edge {edge.source} → {edge.target} goes from stage {stage_of[edge.source]} back to stage "
                f"{stage_of[edge.target]}"
            )
    chosen: dict[int, Configuration] = {}
    for number, stage in enumerate(plan.stages):
        if problem.weight_sync_per_batch and problem.microbatches % stage.data_parallel:
            violations.append(
                f"stage {number}: data-parallel degree {stage.data_parallel} does not divide the "
                f"{problem.microbatches} microbatches"
            )
        violations += _choose(problem, number, stage, chosen)
    stages = []
    remaining = plan.microbatches
    traffic = _traffic(problem, plan, stage_of, chosen)
    for number, stage in enumerate(plan.stages):
        d = stage.data_parallel
        in_flight = -(-remaining // d)
        remaining -= d
        held = [chosen[identity] for identity in stage.operators if identity in chosen]
        weights = sum(choice.weight_bytes for choice in held)
        memory = sum(choice.held_bytes(in_flight, d) for choice in held)
        stages.append(
            HybridStageEvaluation(
                compute=sum(choice.time for choice in held) / d,
                transfer=traffic[number] / d / problem.bandwidth_bytes_per_unit,
                weight_sync=_sync_inside(problem, stage) * weights / problem.bandwidth_bytes_per_unit,
                memory_bytes=memory,
                in_flight=in_flight,
            )
        )
        if problem.memory_bytes is not None and not leq(memory, problem.memory_bytes):
            violations.append(
                f"each device of stage {number} needs {format_bytes(memory)}, "
                f"{format_bytes(memory - problem.memory_bytes)} more than its {format_bytes(problem.memory_bytes)}"
            )
    groups = _machine_groups(problem, plan, stage_of)
    return HybridEvaluation(
        objective=max([stage.time_per_sample for stage in stages] + [group.time_per_sample for group in groups]),
        violations=tuple(violations),
        stages=tuple(stages),
        machine_groups=tuple(groups),
    )


def _assignment(problem: HybridProblem, plan: HybridPlan) -> dict[int, int]:
    for number, stage in enumerate(plan.stages):
        if not stage.operators:
            raise InputError(f"plan stage {number} has no operators; leave it out")
        for field in ("data_parallel", "tensor_parallel"):
            check_at_least(f"plan stage {number}: {field}", getattr(stage, field))
        extra = set(stage.configurations) - set(stage.operators)
        if extra:
            raise InputError(f"plan stage {number}: configurations name layer {min(extra)}, which is not in the stage")
    return stage_of_each(
        [stage.operators for stage in plan.stages], sorted(layer.id for layer in problem.layers), "layer"
    )


def _check_machines(problem: HybridProblem, plan: HybridPlan) -> list[str]:
    """Refuse plans whose machine groups make no sense, and list the limits that machines break."""
    if problem.hierarchy is None:
        for number, stage in enumerate(plan.stages):
            if stage.machines is not None or stage.machine_group is not None:
                raise InputError(
                    f"plan stage {number} names machines, but problem {problem.name!r} has no hierarchy; "
                    "give the problem one, or leave them out"
                )
        return []
    violations = []
    previous = -1
    for number, stage in enumerate(plan.stages):
        if stage.machines is None or stage.machine_group is None:
            raise InputError(
                f"plan stage {number} does not say on how many machines, and in which machine group, it runs; "
                f"problem {problem.name!r} has a hierarchy"
            )
        if stage.machines < 1 or stage.data_parallel % stage.machines:
            raise InputError(
                f"plan stage {number}: data-parallel degree {stage.data_parallel} is not a multiple of its "
                f"{stage.machines} machines; each machine needs as many replicas as the others"
            )
        if stage.machine_group not in (previous, previous + 1):
            raise InputError(
                f"plan stage {number} is in machine group {stage.machine_group} after group {previous}; "
                "groups are numbered from 0 in the order of the stages"
            )
        if stage.machine_group == previous and stage.machines != plan.stages[number - 1].machines:
            raise InputError(
                f"plan stage {number} runs on {stage.machines} machines, the stage before it in machine group "
                f"{previous} on {plan.stages[number - 1].machines}; stages of one group share their machines"
            )
        previous = stage.machine_group
    for group, shared in itertools.groupby(plan.stages, key=lambda stage: stage.machine_group):
        needed = sum(stage.replicas_per_machine * stage.tensor_parallel for stage in shared)
        if needed > problem.devices_per_machine:
            violations.append(
                f"machine group {group} needs {needed} devices in each machine, "
                f"a machine has {problem.devices_per_machine}"
            )
    if plan.machines > problem.machines:
        violations.append(f"the machine groups use {plan.machines} machines, the problem has {problem.machines}")
    return violations


def _sync_inside(problem: HybridProblem, stage: HybridStage) -> float:
    """Times each weight byte is moved per sample and device; with a hierarchy, inside the machine."""
    replicas = stage.replicas_per_machine
    factor = problem.sync_factor(replicas) / replicas
    # Once per batch the machines' replicas do not share the work: each synchronises for its whole batch.
    return factor if problem.weight_sync_per_batch else factor / (stage.machines or 1)


def _machine_groups(problem: HybridProblem, plan: HybridPlan, stage_of: dict[int, int]) -> list[MachineGroupEvaluation]:
    """What each machine group exchanges with other machines."""
    if problem.hierarchy is None:
        return []
    bandwidth = problem.hierarchy.machine_bandwidth_bytes_per_unit
    machines = {stage.machine_group or 0: stage.machines or 1 for stage in plan.stages}
    group_of = {identity: plan.stages[number].machine_group or 0 for identity, number in stage_of.items()}
    moved, weights = [0.0] * len(machines), [0.0] * len(machines)
    for edge in problem.edges:
        source, target = group_of[edge.source], group_of[edge.target]
        if source != target:
            moved[source] += 2 * edge.bytes
            moved[target] += 2 * edge.bytes
    for layer in problem.layers:
        weights[group_of[layer.id]] += layer.whole_weight_bytes
    return [
        MachineGroupEvaluation(
            machines=d,
            transfer=moved[group] / d / bandwidth,
            weight_sync=problem.sync_factor(d) * weights[group] / d / bandwidth,
        )
        for group, d in machines.items()
    ]


def _choose(problem: HybridProblem, number: int, stage: HybridStage, chosen: dict[int, Configuration]) -> list[str]:
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


def _traffic(
    problem: HybridProblem, plan: HybridPlan, stage_of: dict[int, int], chosen: dict[int, Configuration]
) -> list[float]:
    """Bytes that each stage moves over its boundary for one sample (E): each edge forward and backward."""
    result = [0.0] * len(plan.stages)
    for edge in problem.edges:
        source, target = stage_of[edge.source], stage_of[edge.target]
        if source == target:
            continue
        if edge.source in chosen:
            result[source] += 2 * (edge.bytes + chosen[edge.source].sync_out_bytes.get(edge.target, 0.0))
        if edge.target in chosen:
            result[target] += 2 * (edge.bytes + chosen[edge.target].sync_in_bytes.get(edge.source, 0.0))
    return result
