"""A hybrid plan in terms of the traced model: what every stage has of it, on which devices of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain

from partita.nouns.pipeline import Plan, Stage
from partita.nouns.split import StagePart
from partita.problems.facets.model import ModelParts, Priced
from partita.problems.hybrid.pricing import layer_operators, selective_ways
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.evaluate import is_row
from partita.problems.hybrid.step.layout import parse_layout
from partita.problems.hybrid.step.rows import row_starts


def plan_parts(priced: Priced[HybridProblem], plan: Plan) -> ModelParts:
    """Of interleaved stages first all first parts, then all second ones."""
    members = layer_operators(priced.graph, priced.details)
    selective = selective_ways(priced.graph, priced.details)
    settings, step = priced.settings, priced.problem.training
    layout = None if settings.layout is None else parse_layout(settings.layout)
    names = priced.cluster.device_names()
    places = stage_places(priced, plan)

    def way(stage: Stage, layer: int) -> str:
        chosen = stage.configurations[layer]
        return {"selective": selective[layer], "offload": "none"}.get(chosen, chosen)

    def part(rank: int, stage: Stage, layers: Sequence[int]) -> StagePart:
        return StagePart(
            operators=tuple(v for layer in layers for v in members[layer]),
            devices=tuple(f"{names[place]}:{place}" for place in places[rank]),
            kind=names[places[rank][0]],
            replicas=stage.data_parallel,
            tensor=stage.tensor_parallel,
            rank=rank,
            context=stage.context_parallel,
            expert=stage.expert_parallel,
            places=places[rank],
            planned=tuple(layers),
            offload="activations" if any(stage.configurations[layer] == "offload" for layer in layers) else "",
        )

    return ModelParts(
        tuple(
            part(rank, stage, stage.chunks[chunk] if stage.chunks else stage.operators)
            for chunk in range(plan.chunks)
            for rank, stage in enumerate(plan.stages)
        ),
        recompute={v: way(stage, layer) for stage in plan.stages for layer in stage.operators for v in members[layer]},
        schedule=plan.schedule,
        microbatches=priced.problem.microbatches,
        chunks=plan.chunks,
        zero=plan.zero if step is not None else int(settings.zero1),
        sequence_parallel=settings.sequence_parallel if layout is None else layout.sequence_parallel,
        overlap=step is not None and step.overlap,
        optimizer=settings.optimizer,
        optimizer_dtype=settings.optimizer_dtype,
        master_weights=settings.master_weights,
        gradient_dtype="parameter" if step is None else settings.gradient_dtype,
    )


def stage_places(priced: Priced[HybridProblem], plan: Plan) -> list[tuple[int, ...]]:
    """For every stage the numbers of its devices in the cluster, replica after replica.

    Stages of a machine group share its machines, and replica r is on machine r mod (machines of the group).
    """
    problem = priced.problem
    pools = {group.spec.name: group.indices for group in priced.cluster.workers()}
    used = [pools.get(stage.kind, next(iter(pools.values()))) for stage in plan.stages]
    if any(stage.machines is not None for stage in plan.stages):
        size, found, machines, first = problem.devices_per_machine, [], 0, 0
        for number, (stage, pool) in enumerate(zip(plan.stages, used, strict=True)):
            before = plan.stages[number - 1]
            if number and stage.machine_group != before.machine_group:
                machines, first = machines + (before.machines or 1), 0
            width, count = stage.device_count // stage.data_parallel, stage.machines or 1
            starts = [
                (machines + replica % count) * size + first + replica // count * width
                for replica in range(stage.data_parallel)
            ]
            first += stage.replicas_per_machine * width
            found.append(tuple(chain.from_iterable(pool[start : start + width] for start in starts)))
        return found
    starts = list(accumulate((stage.device_count for stage in plan.stages), initial=0))[:-1]
    if is_row(problem, plan):
        behind = row_starts(problem, plan.stages)
        starts = [
            len(pool) - start - stage.device_count for pool, start, stage in zip(used, behind, plan.stages, strict=True)
        ]
    return [
        tuple(pool[start : start + stage.device_count])
        for pool, start, stage in zip(used, starts, plan.stages, strict=True)
    ]
