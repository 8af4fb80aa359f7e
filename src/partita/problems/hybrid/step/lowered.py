"""The plan of a step lowered: the parts of all stages in the order in which a microbatch passes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from partita.costs.collectives import sent_share
from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan, Stage
from partita.problems.hybrid.evaluation import HybridEvaluation, configurations_of, replica_devices, stage_name
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.costs import MeshNetwork, ShardedNetwork, moved_bytes, network_of_experts
from partita.problems.hybrid.step.evaluate import problem_at, stage_costs
from partita.problems.hybrid.step.limits import order_of_parts
from partita.problems.hybrid.step.mesh import DeviceMesh, PartWork, StageCost
from partita.problems.hybrid.training import LayerState
from partita.simulator.pipeline import Exchange, Exchanged, Handover, Pipeline, PipelineStage, StageWork
from partita.simulator.program import End, Message


def lowered_step(problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation, *, behind: bool = False) -> Pipeline:
    """The parts of all stages, and what a stage asks of devices elsewhere; as of every objective.

    There, each device of a group hands over its share of a tensor. What replicas exchange for every microbatch (ZeRO's
    stages 2 and 3) and what groups exchange are part of the work, at the problem's bandwidths; so is what a transfer
    takes beside its bytes. InputError if an edge goes back, or a layer has no such configuration.
    """
    problem = problem_at(problem, plan)
    meshes, costs = stage_costs(problem, plan, configurations_of(problem, plan))
    parts = order_of_parts(plan)
    count, ranks = len(parts), len(plan.stages)
    part_of = {identity: number for number, part in enumerate(parts) for identity in part}
    devices = replica_devices(problem, plan.stages)
    edges = [(number, count + number) for number in range(count)]
    messages = []
    passed: dict[tuple[int, int], float] = {}
    # Of the transfers of a microbatch, one way, what takes its bytes over a link; by stage.
    linked = [0.0] * ranks
    for edge in problem.edges:
        ends = part_of[edge.source], part_of[edge.target]
        source, target = ends[0] % ranks, ends[1] % ranks
        if ends[0] > ends[1]:
            raise InputError(
                f"edge {edge.source} → {edge.target} goes from stage {source} back to stage {target}; such a plan "
                "cannot run"
            )
        if ends[0] != ends[1]:
            passed[ends] = passed.get(ends, 0.0) + edge.bytes / meshes[source].tensor
            linked[source] += edge.bytes * meshes[source].handover(source)[1]
            linked[target] += edge.bytes * meshes[target].handover(target)[0]
    moved: dict[tuple[int, int], float] = {}
    for (first, last), size in sorted(passed.items()):
        for a, b in ((first, last), (count + last, count + first)):
            edges.append((a, b))
            messages.append(Message(a, b, size, 0.0, ()))
        pair = first % ranks, last % ranks
        if pair[0] != pair[1] and size > 0:
            moved[pair] = moved.get(pair, 0.0) + size
    stages = [
        _part(meshes[number % ranks], costs[number % ranks], number, devices[number % ranks]) for number in range(count)
    ]
    for number, (stage, mesh, cost) in enumerate(zip(plan.stages, meshes, costs, strict=True)):
        asked = _asked(problem, stage, mesh, cost, linked[number])
        stages[number] = replace(stages[number], update_s=cost.update, **asked)
    return Pipeline(
        name=problem.name,
        unit=problem.unit,
        stages=tuple(stages),
        edges=tuple(edges),
        messages=tuple(messages),
        end_every=problem.microbatches,
        parts=plan.chunks,
        handovers=tuple(
            Handover(a, b, size, backward)
            for (source, target), size in sorted(moved.items())
            for a, b, backward in ((source, target, False), (target, source, True))
        ),
        microbatches=problem.microbatches,
        schedule=plan.schedule,
        duplex=True,
    )


def _part(mesh: DeviceMesh, cost: StageCost, number: int, devices: tuple[tuple[str, ...], ...]) -> PipelineStage:
    """One part of a stage; the first one has what the stage has once."""
    part = number // mesh.stages
    work, first = cost.parts[part], part == 0
    backward = work.backward
    return PipelineStage(
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


def _traffic(work: PartWork) -> float:
    """The share of the work that is traffic in the group or waiting for other replicas."""
    whole = work.forward + work.backward
    return min(1.0, (work.traffic + work.exposed) / whole) if whole > 0 else 0.0


def _asked(problem: HybridProblem, stage: Stage, mesh: DeviceMesh, cost: StageCost, linked: float) -> dict[str, Any]:
    """What a stage with all its parts asks of devices elsewhere, as fields of its first part."""
    layers = {layer.id: layer for layer in mesh.problem.layers}
    states = [layers[v].states[mesh.tensor] for v in stage.operators if mesh.tensor in layers[v].states]
    # Beside transfers over slow links, work may be less than their rounding.
    ahead = max(0.0, sum(work.forward_in + work.forward_out for work in cost.parts) - linked)
    behind = max(0.0, sum(work.backward_in + work.backward_out for work in cost.parts) - linked)
    forward = sum(work.forward for work in cost.parts) + ahead
    backward = sum(work.backward for work in cost.parts) + behind
    return {
        "name": stage_name([layers[v] for v in stage.operators]),
        "work_s": {"": (max(0.0, forward), max(0.0, backward))},
        "parameter_bytes": _reduced(states, mesh),
        "exchange": _exchange(problem, mesh, stage),
        "together": max(1, mesh.shared.experts_on(mesh.tensor) // (mesh.context * mesh.tensor)),
    }


def _reduced(states: list[LayerState], mesh: DeviceMesh) -> float:
    """Bytes of parameters with which a ring of the replicas moves what groups of the stage move."""
    if mesh.data == 1:
        return 0.0
    experts = [state.experts for state in states if state.experts is not None]
    moved = moved_bytes(states, mesh.zero, mesh.groups, mesh.state_copies)
    held = network_of_experts(mesh.problem, mesh.groups, mesh.tensor, mesh.shared).data
    moved += moved_bytes(experts, mesh.zero, held, mesh.state_copies)
    return moved / sent_share("all-reduce", mesh.data)


def _exchange(problem: HybridProblem, mesh: DeviceMesh, stage: Stage) -> Exchange:
    """What the replicas of a stage exchange once in a step."""
    exchanges, network, zero, copies = mesh.exchanges, mesh.network, mesh.zero, mesh.state_copies
    held = set(stage.operators)
    order = [problem.layers[place] for place in problem.order()]
    places = [place for place, layer in enumerate(order) if layer.id in held]
    states = [order[place].states.get(mesh.tensor, LayerState()) for place in places]
    shared = [LayerState() if state.experts is None else state.experts for state in states]
    apart = network_of_experts(mesh.problem, mesh.groups, mesh.tensor, mesh.shared)
    many = any(state.experts is not None for state in states)
    return Exchange(
        forward_s=tuple(exchanges.forward[places].tolist()),
        backward_s=tuple(exchanges.backward[places].tolist()),
        **_exchanged(states, network.sharded(copies), zero, mesh.tensor if mesh.context > 1 else 0),
        experts=Exchanged(**_exchanged(shared, apart.sharded(copies), zero, apart.tensor)) if many else None,
        scattered=zero > 0,
        overlap=exchanges.overlap,
        occupied=exchanges.occupied,
        rest_s=float(exchanges.reduce_each[places[0]]),
    )


def _exchanged(states: list[LayerState], network: ShardedNetwork, zero: int, width: int) -> dict[str, Any]:
    """What groups exchange of some weights once in a step: the fields of ``Exchanged``."""
    of_sum = "reduce-scatter" if zero else "all-reduce"
    copies = network.across.data
    reduced = [state.gradient_bytes if zero < 2 else 0.0 for state in states]
    gathered = [state.parameter_bytes if zero in (1, 2) else 0.0 for state in states]
    summed = [state.gradient_bytes / network.within.data for state in states] if copies > 1 else []

    def waits(links: MeshNetwork, kind: str, sizes: list[float]) -> tuple[float, ...]:
        # Time is a constant and a multiple of the bytes.
        times = [[links.collective_time(kind, size * factor) for size in sizes] for factor in (1.0, 2.0)]
        return tuple(max(0.0, 2 * one - two) for one, two in zip(*times, strict=True))

    return {
        "reduce_bytes": tuple(reduced),
        "gather_bytes": tuple(gathered),
        "reduce_wait_s": waits(network.within, of_sum, reduced),
        "gather_wait_s": waits(network.within, "all-gather", gathered),
        "copies": copies,
        "sum_bytes": tuple(summed),
        "sum_wait_s": waits(network.across, "all-reduce", summed),
        "width": width,
    }
