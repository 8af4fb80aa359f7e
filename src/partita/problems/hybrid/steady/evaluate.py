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
    StepTime,
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


def step_time(problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> StepTime:
    """How long a batch of ``problem.microbatches`` microbatches takes, with the pipeline filling and draining.

    The plan need not be feasible. With stage i taking τ_i for a microbatch, forward and backward with its transfers, on
    each of its d_i replicas, and N microbatches that the replicas take in turn, a step is

        max over j of (Σ_{i ≠ j} τ_i + ⌈N / d_j⌉ · τ_j) + longest synchronisation + longest update:

    one microbatch goes through all the other stages while stage j works on its own share. Under 1F1B with equal stages
    and degrees this is what happens, (N/d + stages − 1)·τ; with equal degrees and backward parts that take the same
    multiple of the forward parts it is never less than what happens. Where degrees differ, replicas that take turns may
    also wait for each other, which is left out. The sum of stage times and the slowest stage is how Zheng et al.,
    "Alpa" (OSDI 2022, §5.1), count a pipeline, there without replicas that take turns.

    A link between machines counts as one more stage, with the machines of its group as replicas. Weights synchronised
    for every d microbatches are part of τ; once per batch, they come at the end, not overlapped. So a step takes at
    least N times the objective, and in the limit of many microbatches just that.
    """
    batch = problem.microbatches
    # Links between machines are passed like stages: (time of one microbatch, microbatches of each in turn).
    turns: list[tuple[float, int]] = []
    sync: dict[int, float] = {}
    for stage, worth in zip(plan.stages, evaluation.stages, strict=True):
        turn = worth.compute + worth.transfer
        group = stage.machine_group or 0
        if problem.weight_sync_per_batch:
            sync[group] = max(sync.get(group, 0.0), worth.weight_sync * batch)
        else:
            turn += worth.weight_sync
        turns.append((turn * stage.data_parallel, -(-batch // stage.data_parallel)))
    for group, link in enumerate(evaluation.machine_groups):
        turn = link.transfer
        if problem.weight_sync_per_batch:
            sync[group] = sync.get(group, 0.0) + link.weight_sync * batch
        else:
            turn += link.weight_sync
        turns.append((turn * link.machines, -(-batch // link.machines)))
    return StepTime(
        microbatches=batch,
        pipeline=sum(turn for turn, _ in turns) + max((count - 1) * turn for turn, count in turns),
        weight_sync=max(sync.values(), default=0.0),
        update=max((update_time(problem, stage) for stage in plan.stages), default=0.0),
        steady=batch * evaluation.objective,
    )


def update_time(problem: HybridProblem, stage: Stage) -> float:
    """Time of the optimizer's step on each device of a stage: of all replicas alike, or each its share."""
    held = set(stage.operators)
    whole = sum(layer.update_times.get(stage.tensor_parallel, 0.0) for layer in problem.layers if layer.id in held)
    return whole / stage.data_parallel if problem.update_shared else whole
