"""The time of one optimizer step, and which plans can run it: the only place where they are defined.

All stages have the same degrees (a uniform mesh). A step takes

    Σ φ_i + max κ_i + max (sync_i + update_i)

over the stages: ``pipeline`` says what a schedule makes of their times, ``mesh`` and ``costs`` what these are. With
equal stages this is what happens under each schedule; with others what happens is not later.
"""

from __future__ import annotations

from partita.problems.hybrid.blocks import find_blocks
from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.problem import Configuration, HybridProblem
from partita.problems.hybrid.step.interleaved import part_rows, slots
from partita.problems.hybrid.step.limits import limit_violations, order_of_parts, parts_of
from partita.problems.hybrid.step.mesh import Mesh, StageCost
from partita.problems.hybrid.step.pipeline import pipeline_time, refusal
from partita.problems.hybrid.training import SCHEDULES, ZERO_STAGES, Training
from partita.problems.hybrid.worth import HybridEvaluation, HybridStageEvaluation, StepTime, choose, stages_of_layers
from partita.units import format_bytes, leq


def mesh_of(problem: HybridProblem, plan: HybridPlan) -> Mesh:
    """The mesh of a plan, by its first stage."""
    first = plan.stages[0]
    return Mesh(
        problem, len(plan.stages), first.data_parallel, first.tensor_parallel, plan.schedule, plan.chunks, plan.zero
    )


def stage_costs(
    problem: HybridProblem, plan: HybridPlan, chosen: dict[int, Configuration]
) -> tuple[Mesh, list[StageCost]]:
    """What each stage costs; layers without a configuration cost nothing."""
    mesh = mesh_of(problem, plan)
    costs = []
    for rank, stage in enumerate(plan.stages):
        nothing = Configuration(id="", time=0.0)
        parts = [[(identity, chosen.get(identity, nothing)) for identity in part] for part in parts_of(stage)]
        costs.append(mesh.cost(rank, parts + [[]] * (plan.chunks - len(parts))))
    return mesh, costs


def evaluate_step(problem: HybridProblem, plan: HybridPlan) -> HybridEvaluation:
    """The time of a step of a plan, and what it breaks; errors are those of ``hybrid.evaluate.evaluate``."""
    stages_of_layers(problem, plan)
    chosen: dict[int, Configuration] = {}
    violations = _mesh_violations(problem, plan)
    for number, stage in enumerate(plan.stages):
        violations += choose(problem, number, stage, chosen)
    violations += _order_violations(problem, plan)
    violations += limit_violations(problem, plan)
    mesh, costs = stage_costs(problem, plan, chosen)
    batch, d = problem.microbatches, mesh.data
    limit = problem.memory_bytes
    for number, cost in enumerate(costs):
        if limit is not None and not leq(cost.memory_bytes, limit):
            violations.append(
                f"each device of stage {number} needs {format_bytes(cost.memory_bytes)}, "
                f"{format_bytes(cost.memory_bytes - limit)} more than its {format_bytes(limit)}"
            )
    pipeline = pipeline_time([cost.passing for cost in costs], [cost.holding for cost in costs])
    last = max(costs, key=lambda cost: cost.sync + cost.update)
    step = StepTime(
        microbatches=batch,
        pipeline=pipeline,
        weight_sync=last.sync,
        update=last.update,
        steady=batch / d * max(cost.time for cost in costs) + last.sync,
    )
    stages = tuple(
        HybridStageEvaluation(
            compute=sum(part.forward + part.backward - part.exposed for part in cost.parts) / d,
            transfer=sum(part.transfer for part in cost.parts) / d,
            weight_sync=sum(part.exposed for part in cost.parts) / d + cost.sync / batch,
            memory_bytes=cost.memory_bytes,
            in_flight=cost.in_flight,
        )
        for cost in costs
    )
    return HybridEvaluation(objective=step.step, violations=tuple(violations), stages=stages, step=step)


def _mesh_violations(problem: HybridProblem, plan: HybridPlan) -> list[str]:
    """What of the mesh is not as it has to be."""
    training = problem.training or Training(schedules=SCHEDULES, zero=ZERO_STAGES)
    first, violations = plan.stages[0], []
    d, t = first.data_parallel, first.tensor_parallel
    for number, stage in enumerate(plan.stages):
        if (stage.data_parallel, stage.tensor_parallel) != (d, t):
            violations.append(
                f"stage {number} has degrees {stage.data_parallel} × {stage.tensor_parallel}, stage 0 has {d} × {t}; "
                "in a uniform mesh they are the same"
            )
        if stage.machines is not None or stage.machine_group is not None:
            violations.append(f"stage {number} names machines; a uniform mesh fills them in the order of its ranks")
    if plan.devices > problem.devices:
        violations.append(f"the stages use {plan.devices} devices, the problem has {problem.devices}")
    if t > problem.devices_per_machine:
        violations.append(f"tensor-parallel degree {t} is more than the {problem.devices_per_machine} of a machine")
    if problem.microbatches % d:
        violations.append(f"data-parallel degree {d} does not divide the {problem.microbatches} microbatches")
    if plan.schedule not in training.schedules:
        violations.append(f"schedule {plan.schedule} is not one of {', '.join(training.schedules)}")
    if plan.zero not in training.zero:
        violations.append(f"ZeRO stage {plan.zero} is not one of {', '.join(map(str, training.zero))}")
    wrong = refusal(plan.schedule, len(plan.stages), plan.chunks, problem.microbatches // d)
    if wrong is not None:
        violations.append(wrong)
    if plan.chunks > 1:
        violations += _uneven_chunks(problem, plan)
    return violations


def _uneven_chunks(problem: HybridProblem, plan: HybridPlan) -> list[str]:
    """Interleaved schedules deal out layers as runtimes (Megatron-LM) do, and recompute alike in all parts."""
    order = [problem.layers[place] for place in problem.order()]
    blocks, parts = find_blocks(order), order_of_parts(plan)
    if len({len(parts_of(stage)) for stage in plan.stages}) > 1:
        return ["the stages of an interleaved schedule have equally many parts"]
    if len(blocks.starts) % len(parts):
        return [f"{len(parts)} parts of an interleaved schedule do not share {len(blocks.starts)} blocks evenly"]
    rows = part_rows(order, blocks, len(parts))
    for part, row in zip(parts, rows, strict=True):
        if set(part) != {order[place].id for place in row}:
            return ["the parts of an interleaved schedule have equally many blocks, in order, and the ends outermost"]
    for rank, stage in enumerate(plan.stages):
        for members, _ in slots(order, blocks, rows[rank :: len(plan.stages)], stage.tensor_parallel):
            if len({stage.configurations.get(order[place].id) for _, place in members}) > 1:
                return [
                    f"the parts of stage {rank} differ in configurations; under an interleaved schedule they do not"
                ]
    return []


def _order_violations(problem: HybridProblem, plan: HybridPlan) -> list[str]:
    """Edges that go back in the row of parts."""
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
