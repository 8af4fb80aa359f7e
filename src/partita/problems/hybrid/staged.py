"""What a hybrid plan asks of physical devices: tensor-parallel groups in lockstep, replicas that take turns."""

from __future__ import annotations

from partita.errors import InputError, UnsupportedError
from partita.problems.facets.stages import Stages
from partita.problems.hybrid.plan import HybridPlan, HybridStage
from partita.problems.hybrid.problem import Configuration, HybridProblem
from partita.problems.hybrid.step.evaluate import stage_costs
from partita.problems.hybrid.step.limits import order_of_parts
from partita.problems.hybrid.step.mesh import Mesh
from partita.problems.hybrid.step.timeline import stage_devices
from partita.problems.hybrid.step_time import update_time
from partita.problems.hybrid.timeline import PlanPipeline
from partita.problems.hybrid.training import LayerState
from partita.problems.hybrid.worth import HybridEvaluation
from partita.simulator.placed import Exchange, Handover, StageDemand, StagedPlan


class HybridStages(Stages[HybridProblem, HybridPlan, HybridEvaluation]):
    """Work, weights and edges of every stage.

    What a stage moves inside its groups for tensors of other stages is part of its work, at the problem's bandwidth.
    """

    def staged(self, problem: HybridProblem, plan: HybridPlan, evaluation: HybridEvaluation) -> StagedPlan:
        if problem.unit != "s":
            raise InputError(
                f"problem {problem.name!r} counts time in {problem.unit}, not in seconds, so bandwidths of a topology "
                "mean nothing to it; only plans of models can be placed"
            )
        if problem.training is not None:
            return _step(problem, plan)
        pipeline = PlanPipeline(problem, plan, evaluation)
        work = [list(pipeline.work(number)) for number in range(len(plan.stages))]
        handovers = []
        for (source, target), (size, out, into) in sorted(pipeline.pairs.items()):
            for stage, inside in ((source, out - size), (target, into - size)):
                for part in (0, 1):
                    work[stage][part] += inside / problem.bandwidth_bytes_per_unit
            handovers += [Handover(source, target, size), Handover(target, source, size, backward=True)]
        devices = pipeline.devices()
        stages = tuple(
            StageDemand(
                name=_name(pipeline.names(number)),
                replicas=stage.data_parallel,
                group=stage.tensor_parallel,
                work_s={"": (work[number][0], work[number][1])},
                kind="",
                parameter_bytes=pipeline.weight_bytes(number),
                update_s=update_time(problem, stage),
                own=tuple(tuple(int(name.partition(":")[2]) for name in replica) for replica in devices[number]),
            )
            for number, stage in enumerate(plan.stages)
        )
        return StagedPlan(
            name=problem.name,
            stages=stages,
            handovers=tuple(one for one in handovers if one.bytes > 0),
            microbatches=problem.microbatches,
            training=True,
            schedule="1f1b",
            order=tuple(range(len(stages))),
        )


def _name(layers: list[str]) -> str:
    return layers[0] if len(layers) == 1 else f"{layers[0]} … {layers[-1]}"


def _step(problem: HybridProblem, plan: HybridPlan) -> StagedPlan:
    """A plan of a step: each device of a group hands over its share of a tensor.

    What replicas exchange for every microbatch (ZeRO's stages 2 and 3) and what groups exchange are part of the work,
    at the problem's bandwidths; so is what a transfer takes beside its bytes.
    """
    degrees = plan.stages[0]
    if degrees.context_parallel > 1 or degrees.expert_parallel > 1:
        raise InputError(
            f"{problem.name}: devices that share out a sequence or experts are neighbours, so the plan's ranks fill "
            "the machines in their order"
        )
    if problem.others:
        raise UnsupportedError(f"{problem.name}: plans for several kinds of devices are not placed on topologies")
    layers = {layer.id: layer for layer in problem.layers}
    chosen = {v: _choice(problem, stage, v) for stage in plan.stages for v in stage.operators}
    meshes, costs = stage_costs(problem, plan, chosen)
    devices = stage_devices(meshes)
    parts = order_of_parts(plan)
    part_of = {identity: number for number, part in enumerate(parts) for identity in part}
    moved: dict[tuple[int, int], float] = {}
    # What of the transfers of a microbatch, one way, takes its bytes over a link; the rest is work.
    links = [0.0] * len(plan.stages)
    for edge in problem.edges:
        ends = part_of[edge.source], part_of[edge.target]
        if ends[0] == ends[1]:
            continue
        source, target = ends[0] % len(meshes), ends[1] % len(meshes)
        links[source] += edge.bytes * meshes[source].handover(source)[1]
        links[target] += edge.bytes * meshes[target].handover(target)[0]
        if source != target:
            moved[source, target] = moved.get((source, target), 0.0) + edge.bytes / meshes[source].tensor
    stages = []
    for number, (stage, mesh, cost) in enumerate(zip(plan.stages, meshes, costs, strict=True)):
        states = [mesh.state_of(v) for v in stage.operators]
        gradients = sum(state.gradient_bytes for state in states if state is not None)
        weights = sum(state.parameter_bytes for state in states if state is not None)
        # Beside transfers over slow links, work may be less than their rounding.
        ahead = sum(work.forward_in + work.forward_out for work in cost.parts) - links[number]
        behind = sum(work.backward_in + work.backward_out for work in cost.parts) - links[number]
        forward = sum(work.forward for work in cost.parts) + max(0.0, ahead)
        backward = sum(work.backward for work in cost.parts) + max(0.0, behind)
        later = sum(work.weight_gradients for work in cost.parts)
        stages.append(
            StageDemand(
                name=_name([layers[v].name or f"layer {v}" for v in stage.operators]),
                replicas=mesh.data,
                group=mesh.tensor,
                work_s={"": (max(0.0, forward), max(0.0, backward))},
                kind="",
                parameter_bytes=(gradients, (gradients + weights) / 2, weights / 2, 0.0)[plan.zero],
                update_s=cost.update,
                own=tuple(tuple(int(name.partition(":")[2]) for name in replica) for replica in devices[number]),
                weight_share=later / backward if backward > 0 else 0.0,
                exchange=_exchange(problem, mesh, stage, plan.zero),
            )
        )
    handovers = []
    for (source, target), size in sorted(moved.items()):
        handovers += [Handover(source, target, size), Handover(target, source, size, backward=True)]
    notes = ("Interleaved plans are placed by what each device moves, without a simulated step.",)
    return StagedPlan(
        name=problem.name,
        stages=tuple(stages),
        handovers=tuple(one for one in handovers if one.bytes > 0),
        microbatches=problem.microbatches,
        training=True,
        schedule=plan.schedule,
        order=None if plan.chunks > 1 else tuple(range(len(stages))),
        notes=notes if plan.chunks > 1 else (),
        duplex=True,
    )


def _exchange(problem: HybridProblem, mesh: Mesh, stage: HybridStage, zero: int) -> Exchange:
    """What the replicas of a stage exchange once in a step."""
    exchanges, network = mesh.exchanges, mesh.network
    held = set(stage.operators)
    order = [problem.layers[place] for place in problem.order()]
    places = [place for place, layer in enumerate(order) if layer.id in held]
    states = [order[place].states.get(mesh.tensor, LayerState()) for place in places]
    of_sum = "reduce-scatter" if zero else "all-reduce"
    reduced = [state.gradient_bytes if zero < 2 else 0.0 for state in states]
    gathered = [state.parameter_bytes if zero in (1, 2) else 0.0 for state in states]

    def waits(kind: str, sizes: list[float]) -> tuple[float, ...]:
        # Time is a constant and a multiple of the bytes.
        times = [[network.collective_time(kind, size * factor) for size in sizes] for factor in (1.0, 2.0)]
        return tuple(max(0.0, 2 * one - two) for one, two in zip(*times, strict=True))

    return Exchange(
        forward_s=tuple(exchanges.forward[places].tolist()),
        backward_s=tuple(exchanges.backward[places].tolist()),
        reduce_bytes=tuple(reduced),
        gather_bytes=tuple(gathered),
        reduce_wait_s=waits(of_sum, reduced),
        gather_wait_s=waits("all-gather", gathered),
        scattered=zero > 0,
        overlap=exchanges.overlap,
        occupied=exchanges.occupied,
        rest_s=float(exchanges.reduce_each[places[0]]),
    )


def _choice(problem: HybridProblem, stage: HybridStage, identity: int) -> Configuration:
    layer = next(layer for layer in problem.on(stage.device).layers if layer.id == identity)
    wanted = stage.configurations[identity]
    return next(choice for choice in layer.configurations[stage.tensor_parallel] if choice.id == wanted)
