"""The time of one optimizer step, and which plans can run it: the only place where they are defined.

All stages have the same degrees (a uniform mesh), or each its own if the problem's mesh is free. A step takes

    Σ φ_i + max κ_i + max (sync_i + update_i)

over the stages: ``pipeline`` says what a schedule makes of their times, ``mesh`` and ``costs`` what these are, and
``free_stages`` what is different where degrees are. With equal stages this is what happens under each schedule; with
others of one mesh what happens is not later. Stages with degrees of their own may wait longer for replicas that take
turns.
"""

from __future__ import annotations

from partita.ground.rounding import leq
from partita.ground.units import format_bytes
from partita.nouns.pipeline import Plan, state_copies
from partita.problems.hybrid.blocks import find_blocks
from partita.problems.hybrid.evaluation import HybridStageEvaluation, StepEvaluation, StepTime, choose, stages_of_layers
from partita.problems.hybrid.layer import Configuration
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.free_stages import free_meshes, free_violations, is_uniform
from partita.problems.hybrid.step.interleaved import part_places, slots
from partita.problems.hybrid.step.limits import limit_violations, order_of_parts, parts_of
from partita.problems.hybrid.step.mesh import DeviceMesh, StageCost
from partita.problems.hybrid.step.pipeline import pipeline_time, refusal
from partita.problems.hybrid.training import Training


def is_free(problem: HybridProblem, plan: Plan) -> bool:
    """Whether a plan's stages differ in degrees or kinds of devices, and may do so."""
    return (problem.step.mesh == "free" or bool(problem.others)) and not is_uniform(plan)


def meshes_of(problem: HybridProblem, plan: Plan) -> list[DeviceMesh]:
    """The mesh of every stage: of a uniform mesh that of the first one."""
    if is_free(problem, plan):
        return [*free_meshes(problem, plan)]
    first = plan.stages[0]
    mesh = DeviceMesh(
        problem_at(problem, plan).on(first.kind),
        len(plan.stages),
        first.data_parallel,
        first.tensor_parallel,
        plan.schedule,
        plan.chunks,
        plan.zero,
        *first.shared,
        plan.zero_shards,
    )
    return [mesh] * len(plan.stages)


def problem_at(problem: HybridProblem, plan: Plan) -> HybridProblem:
    """What layers cost under a plan's context- and expert-parallel degrees; of free stages or unknown ones without."""
    if is_free(problem, plan):
        return problem
    first = plan.stages[0]
    return problem.at(*first.shared) or problem


def stage_costs(
    problem: HybridProblem, plan: Plan, chosen: dict[int, Configuration]
) -> tuple[list[DeviceMesh], list[StageCost]]:
    """The mesh of each stage and what it costs; layers without a configuration cost nothing."""
    meshes = meshes_of(problem, plan)
    costs = []
    for rank, (stage, mesh) in enumerate(zip(plan.stages, meshes, strict=True)):
        nothing = Configuration(id="", time=0.0)
        parts = [[(identity, chosen.get(identity, nothing)) for identity in part] for part in parts_of(stage)]
        costs.append(mesh.cost(rank, parts + [[]] * (plan.chunks - len(parts))))
    return meshes, costs


def evaluate(problem: HybridProblem, plan: Plan) -> StepEvaluation:
    """The time of a step of a plan, and what it breaks; errors are those of ``steady.evaluate``."""
    stages_of_layers(problem, plan)
    chosen: dict[int, Configuration] = {}
    violations = _mesh_violations(problem, plan)
    there = problem_at(problem, plan)
    for number, stage in enumerate(plan.stages):
        violations += choose(there.on(stage.kind), number, stage, chosen)
    violations += _order_violations(problem, plan)
    violations += limit_violations(problem, plan)
    meshes, costs = stage_costs(there, plan, chosen)
    batch = problem.microbatches
    for number, (mesh, cost) in enumerate(zip(meshes, costs, strict=True)):
        limit = mesh.problem.memory_bytes
        if limit is not None and not leq(cost.memory_bytes, limit):
            violations.append(
                f"each device of stage {number} needs {format_bytes(cost.memory_bytes)}, "
                f"{format_bytes(cost.memory_bytes - limit)} more than its {format_bytes(limit)}"
            )
    pipeline = pipeline_time(*([getattr(cost, name) for cost in costs] for name in ("passing", "holding", "ahead")))
    last = max(costs, key=lambda cost: cost.sync + cost.update)
    step = StepTime(
        microbatches=batch,
        pipeline=pipeline,
        weight_sync=last.sync,
        update=last.update,
        steady=max(batch / mesh.data * cost.time for mesh, cost in zip(meshes, costs, strict=True)) + last.sync,
    )
    stages = tuple(
        HybridStageEvaluation(
            compute=sum(part.forward + part.backward - part.exposed for part in cost.parts) / mesh.data,
            transfer=sum(part.transfer for part in cost.parts) / mesh.data,
            weight_sync=sum(part.exposed for part in cost.parts) / mesh.data + cost.sync / batch,
            memory_bytes=cost.memory_bytes,
            in_flight=cost.in_flight,
        )
        for mesh, cost in zip(meshes, costs, strict=True)
    )
    return StepEvaluation(objective=step.step, violations=tuple(violations), stages=stages, step=step)


def _mesh_violations(problem: HybridProblem, plan: Plan) -> list[str]:
    """What of the mesh is not as it has to be."""
    training = problem.step
    violations = [
        f"stage {number} names machines; in a step they are filled in the order of the stages"
        for number, stage in enumerate(plan.stages)
        if stage.machines is not None or stage.machine_group is not None
    ]
    if plan.schedule not in training.schedules:
        violations.append(f"schedule {plan.schedule} is not one of {', '.join(training.schedules)}")
    if plan.zero not in training.zero:
        violations.append(f"ZeRO stage {plan.zero} is not one of {', '.join(map(str, training.zero))}")
    violations += _shard_violations(training, plan)
    if is_free(problem, plan):
        return violations + free_violations(problem, plan)
    return violations + _uniform_violations(problem.on(plan.stages[0].kind), plan)


def _shard_violations(training: Training, plan: Plan) -> list[str]:
    """What is wrong with the groups that share out what ZeRO's stage says."""
    first, shards = plan.stages[0], plan.zero_shards
    groups = first.data_parallel * first.context_parallel
    if shards not in (0, *training.zero_shards):
        return [f"ZeRO shares out among {shards} groups, not one of {', '.join(map(str, training.zero_shards))}"]
    if shards == 0:
        alone = plan.zero == 0 or all(stage.data_parallel * stage.context_parallel == 1 for stage in plan.stages)
        return [] if alone or 0 in training.zero_shards else ["ZeRO shares out among all groups, which is not allowed"]
    if plan.zero == 0:
        return [f"ZeRO stage 0 shares out nothing, and the plan names {shards} groups that do"]
    if groups % shards:
        return [f"ZeRO shares out among {shards} groups, which do not divide the {groups} of a stage"]
    copies = state_copies(groups, shards)
    held = first.device_count // first.shared.experts_on(first.tensor_parallel)
    if first.shared.shares_experts and held % copies:
        return [f"ZeRO's state is held {copies} times, which does not divide the {held} replicas of each expert"]
    return []


def _uniform_violations(problem: HybridProblem, plan: Plan) -> list[str]:
    training = problem.step
    first, violations = plan.stages[0], []
    d, t, shared = first.data_parallel, first.tensor_parallel, first.shared
    for number, stage in enumerate(plan.stages):
        if (stage.data_parallel, stage.tensor_parallel) != (d, t):
            violations.append(
                f"stage {number} has degrees {stage.data_parallel} × {stage.tensor_parallel}, stage 0 has {d} × {t}; "
                "in a uniform mesh they are the same"
            )
        if stage.shared != shared:
            violations.append(
                f"stage {number} has {stage.shared}, stage 0 has {shared}; in a uniform mesh they are the same"
            )
    if t > problem.devices_per_machine:
        violations.append(f"tensor-parallel degree {t} is more than the {problem.devices_per_machine} of a machine")
    elif plan.device_count > problem.room(block := shared.block(t)):
        violations.append(f"the stages use {plan.device_count} devices, the problem has {problem.room_words(block)}")
    for what, degree, allowed in zip(
        ("context", "expert", "expert-tensor"),
        shared,
        (training.context, training.expert, training.expert_tensor),
        strict=True,
    ):
        if degree not in allowed:
            violations.append(f"{what}-parallel degree {degree} is not one of {', '.join(map(str, allowed))}")
    if first.device_count % shared.experts_on(t):
        width = shared.expert_tensor or t
        violations.append(
            f"expert-parallel degree {shared.expert} does not divide the {first.device_count / width:.4g} groups of "
            f"{width} devices of a stage"
        )
    if shared.expert_tensor > problem.devices_per_machine:
        violations.append(
            f"expert-tensor degree {shared.expert_tensor} is more than the {problem.devices_per_machine} of a machine"
        )
    if problem.microbatches % d:
        violations.append(f"data-parallel degree {d} does not divide the {problem.microbatches} microbatches")
    wrong = refusal(plan.schedule, len(plan.stages), plan.chunks, problem.microbatches // d, plan.zero)
    if wrong is not None:
        violations.append(wrong)
    if plan.chunks > 1:
        violations += _uneven_chunks(problem, plan)
    return violations


def _uneven_chunks(problem: HybridProblem, plan: Plan) -> list[str]:
    """Interleaved schedules deal out layers as runtimes (Megatron-LM) do, and recompute alike in all parts."""
    order = [problem.layers[place] for place in problem.order()]
    blocks, parts = find_blocks(order), order_of_parts(plan)
    if len({len(parts_of(stage)) for stage in plan.stages}) > 1:
        return ["the stages of an interleaved schedule have equally many parts"]
    if problem.step.uneven:
        return []
    if len(blocks.starts) % len(parts):
        return [f"{len(parts)} parts of an interleaved schedule do not share {len(blocks.starts)} blocks evenly"]
    equal = part_places(order, blocks, len(parts))
    for part, places in zip(parts, equal, strict=True):
        if set(part) != {order[place].id for place in places}:
            return ["the parts of an interleaved schedule have equally many blocks, in order, and the ends outermost"]
    for rank, stage in enumerate(plan.stages):
        for members, _ in slots(order, blocks, equal[rank :: len(plan.stages)], stage.tensor_parallel):
            if len({stage.configurations.get(order[place].id) for _, place in members}) > 1:
                return [
                    f"the parts of stage {rank} differ in configurations; under an interleaved schedule they do not"
                ]
    return []


def _order_violations(problem: HybridProblem, plan: Plan) -> list[str]:
    """Edges that go back in the order of parts."""
    place = {
        identity: (number, rank)
        for rank, stage in enumerate(plan.stages)
        for number, part in enumerate(parts_of(stage))
        for identity in part
    }
    return [
        f"edge {edge.source} → {edge.target} goes from stage {place[edge.source][1]} back to stage "
        f"{place[edge.target][1]}"
        for edge in problem.edges
        if place[edge.source] > place[edge.target]
    ]
