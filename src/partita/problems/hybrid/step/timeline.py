"""What happens in a step of a uniform mesh: the row of parts as the simulator runs it."""

from __future__ import annotations

from collections.abc import Sequence

from partita.errors import InputError
from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.problem import Configuration, HybridProblem
from partita.problems.hybrid.step.evaluate import stage_costs
from partita.problems.hybrid.step.limits import order_of_parts
from partita.problems.hybrid.step.mesh import Mesh, StageCost, Work
from partita.simulator.program import End, Message
from partita.simulator.stages import Stage, StagePipeline, StageWork


def step_pipeline(problem: HybridProblem, plan: HybridPlan, chosen: dict[int, Configuration]) -> StagePipeline:
    """The parts of all stages in the order in which a microbatch passes them.

    Raises
    ------
    InputError
        If an edge goes back.
    """
    meshes, costs = stage_costs(problem, plan, chosen)
    parts = order_of_parts(plan)
    count, ranks = len(parts), len(plan.stages)
    part_of = {identity: number for number, part in enumerate(parts) for identity in part}
    devices = stage_devices(meshes)
    edges = [(number, count + number) for number in range(count)]
    messages = []
    passed: dict[tuple[int, int], float] = {}
    for edge in meshes[0].problem.edges:
        ends = part_of[edge.source], part_of[edge.target]
        if ends[0] > ends[1]:
            raise InputError(
                f"edge {edge.source} → {edge.target} goes from stage {ends[0] % ranks} back to stage "
                f"{ends[1] % ranks}; such a plan cannot run"
            )
        if ends[0] != ends[1]:
            passed[ends] = passed.get(ends, 0.0) + edge.bytes / meshes[ends[0] % ranks].tensor
    for (source, target), size in sorted(passed.items()):
        for a, b in ((source, target), (count + target, count + source)):
            edges.append((a, b))
            messages.append(Message(a, b, size, 0.0, ()))
    return StagePipeline(
        name=problem.name,
        unit=problem.unit,
        stages=tuple(
            _stage(meshes[number % ranks], costs[number % ranks], number, devices[number % ranks])
            for number in range(count)
        ),
        edges=tuple(edges),
        messages=tuple(messages),
        end_every=problem.microbatches,
        parts=plan.chunks,
    )


def _stage(mesh: Mesh, cost: StageCost, number: int, devices: tuple[tuple[str, ...], ...]) -> Stage:
    """One part of a stage; the first one has what the stage has once."""
    part = number // mesh.stages
    work, first = cost.parts[part], part == 0
    backward = work.backward
    return Stage(
        replicas=devices,
        forward=StageWork(work.forward, work.forward_in, work.forward_out, _traffic(work)),
        backward=StageWork(backward, work.backward_in, work.backward_out, _traffic(work)),
        weight_share=min(1.0, work.weight_gradients / backward) if backward > 0 else 0.0,
        in_flight=cost.in_flight,
        activation_bytes=work.activation_bytes,
        memory={"state": cost.state_bytes} if first else {},
        limit=mesh.problem.memory_bytes,
        end=End(sync=cost.sync, update=cost.update) if first else End(),
        capacity=mesh.network.inside,
    )


def _traffic(work: Work) -> float:
    """The share of the work that is traffic in the group or waiting for other replicas."""
    whole = work.forward + work.backward
    return min(1.0, (work.traffic + work.exposed) / whole) if whole > 0 else 0.0


def stage_devices(meshes: Sequence[Mesh]) -> list[tuple[tuple[str, ...], ...]]:
    """The devices of every replica of every stage, numbered along the stages."""
    found, first = [], 0
    for mesh in meshes:
        t = mesh.tensor * mesh.context
        starts = [first + replica * t for replica in range(mesh.data)]
        found.append(tuple(tuple(f"device:{start + k}" for k in range(t)) for start in starts))
        first += mesh.data * t
    return found
