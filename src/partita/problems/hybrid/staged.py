"""What a hybrid plan asks of physical devices: tensor-parallel groups in lockstep, replicas that take turns."""

from __future__ import annotations

from partita.errors import InputError, UnsupportedError
from partita.problems.facets.stages import Stages
from partita.problems.hybrid.plan import HybridPlan, HybridStage
from partita.problems.hybrid.problem import Configuration, HybridProblem
from partita.problems.hybrid.step.evaluate import order_of_parts, stage_costs
from partita.problems.hybrid.step.timeline import stage_devices
from partita.problems.hybrid.step_time import update_time
from partita.problems.hybrid.timeline import PlanPipeline
from partita.problems.hybrid.worth import HybridEvaluation
from partita.simulator.placed import Handover, StageDemand, StagedPlan


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

    What replicas exchange for every microbatch (ZeRO's stages 2 and 3) is part of the work, at the problem's
    bandwidths; what they exchange once is an all-reduce, or the half of one that only gathers weights.
    """
    if problem.others:
        raise UnsupportedError(f"{problem.name}: plans for several kinds of devices are not placed on topologies")
    layers = {layer.id: layer for layer in problem.layers}
    chosen = {v: _choice(problem, stage, v) for stage in plan.stages for v in stage.operators}
    meshes, costs = stage_costs(problem, plan, chosen)
    devices = stage_devices(meshes)
    parts = order_of_parts(plan)
    part_of = {identity: number for number, part in enumerate(parts) for identity in part}
    moved: dict[tuple[int, int], float] = {}
    inside = [0.0] * len(plan.stages)
    for edge in problem.edges:
        ends = part_of[edge.source], part_of[edge.target]
        if ends[0] == ends[1]:
            continue
        source, target = ends[0] % len(meshes), ends[1] % len(meshes)
        inside[source] += chosen[edge.source].sync_out_bytes.get(edge.target, 0.0) / meshes[source].network.inside
        inside[target] += chosen[edge.target].sync_in_bytes.get(edge.source, 0.0) / meshes[target].network.inside
        if source != target:
            moved[source, target] = moved.get((source, target), 0.0) + edge.bytes / meshes[source].tensor
    stages = []
    for number, (stage, mesh, cost) in enumerate(zip(plan.stages, meshes, costs, strict=True)):
        states = [mesh.state_of(v) for v in stage.operators]
        gradients = sum(state.gradient_bytes for state in states if state is not None)
        weights = sum(state.parameter_bytes for state in states if state is not None)
        stages.append(
            StageDemand(
                name=_name([layers[v].name or f"layer {v}" for v in stage.operators]),
                replicas=mesh.data,
                group=mesh.tensor,
                work_s={
                    "": (
                        sum(work.forward for work in cost.parts) + inside[number],
                        sum(work.backward for work in cost.parts) + inside[number],
                    )
                },
                kind="",
                parameter_bytes=(gradients, gradients, weights / 2, 0.0)[plan.zero],
                update_s=cost.update,
                own=tuple(tuple(int(name.partition(":")[2]) for name in replica) for replica in devices[number]),
            )
        )
    handovers = []
    for (source, target), size in sorted(moved.items()):
        handovers += [Handover(source, target, size), Handover(target, source, size, backward=True)]
    notes = ["What replicas exchange once in a step is not hidden behind work where a plan is placed."]
    if plan.chunks > 1:
        notes.append("Interleaved plans are placed by what each device moves, without a simulated step.")
    return StagedPlan(
        name=problem.name,
        stages=tuple(stages),
        handovers=tuple(one for one in handovers if one.bytes > 0),
        microbatches=problem.microbatches,
        training=True,
        schedule=plan.schedule,
        order=None if plan.chunks > 1 else tuple(range(len(stages))),
        notes=tuple(notes),
    )


def _choice(problem: HybridProblem, stage: HybridStage, identity: int) -> Configuration:
    layer = next(layer for layer in problem.on(stage.device).layers if layer.id == identity)
    wanted = stage.configurations[identity]
    return next(choice for choice in layer.configurations[stage.tensor_parallel] if choice.id == wanted)
