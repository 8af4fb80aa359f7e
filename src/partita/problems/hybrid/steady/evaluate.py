"""The time per sample and the feasibility of a hybrid plan: the only place where they are defined.

Source: Piper (NeurIPS 2021), §3.4 to §4 and Appendix A; hierarchies are Appendix E's with two levels;
``weight_sync_per_batch`` follows a later version of the published program.
"""

from __future__ import annotations

import itertools

from partita.ground.errors import InputError
from partita.ground.rounding import leq
from partita.ground.units import format_bytes
from partita.nouns.pipeline import Plan, Stage
from partita.problems.hybrid.evaluation import (
    HybridEvaluation,
    HybridStageEvaluation,
    MachineGroupEvaluation,
    choose,
    stages_of_layers,
)
from partita.problems.hybrid.layer import Configuration
from partita.problems.hybrid.problem import HybridProblem


def evaluate(problem: HybridProblem, plan: Plan) -> HybridEvaluation:
    """Objective and feasibility of a plan, from the problem alone.

    Raises
    ------
    InputError
        If the plan is not a plan of this problem: a layer is missing, unknown or placed twice, a stage is empty, a
        degree is below 1, a configuration is unknown, or machines are given without a hierarchy or the other way round.
    """
    stage_of = stages_of_layers(problem, plan)
    violations = _check_machines(problem, plan)
    if plan.device_count > problem.devices:
        violations.append(f"the stages use {plan.device_count} devices, the problem has {problem.devices}")
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
        violations += choose(problem, number, stage, chosen)
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
        objective=max(
            [stage.time_per_microbatch for stage in stages] + [group.time_per_microbatch for group in groups]
        ),
        violations=tuple(violations),
        stages=tuple(stages),
        machine_groups=tuple(groups),
    )


def _check_machines(problem: HybridProblem, plan: Plan) -> list[str]:
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


def _sync_inside(problem: HybridProblem, stage: Stage) -> float:
    """Times each weight byte is moved per sample and device; with a hierarchy, inside the machine."""
    replicas = stage.replicas_per_machine
    factor = problem.sync_factor(replicas) / replicas
    # Once per batch the machines' replicas do not share the work: each synchronises for its whole batch.
    return factor if problem.weight_sync_per_batch else factor / (stage.machines or 1)


def _machine_groups(problem: HybridProblem, plan: Plan, stage_of: dict[int, int]) -> list[MachineGroupEvaluation]:
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


def _traffic(
    problem: HybridProblem, plan: Plan, stage_of: dict[int, int], chosen: dict[int, Configuration]
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
