"""What a runtime's stages have to keep, of plans of a step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
import numpy as np

from partita.engines.kernels.arrays import Bools
from partita.nouns.catalogue.meshes import Mesh
from partita.nouns.pipeline import Plan, Stage
from partita.problems.hybrid.downsets import as_bits
from partita.problems.hybrid.layer import Layer
from partita.problems.hybrid.problem import HybridProblem


def parts_of(stage: Stage) -> tuple[tuple[int, ...], ...]:
    """The parts of a stage that are passed one after the other."""
    return stage.chunks or (stage.operators,)


def order_of_parts(plan: Plan) -> Sequence[tuple[int, ...]]:
    """All parts in the order in which a microbatch passes them."""
    return [parts_of(stage)[number] for number in range(plan.chunks) for stage in plan.stages]


def limit_violations(problem: HybridProblem, plan: Plan) -> list[str]:
    """What a plan does not keep of a step's ``StageLimits``; nothing of plans whose stages have unlike many parts."""
    if len({len(parts_of(stage)) for stage in plan.stages}) > 1:
        return []
    limits = problem.step.limits
    place = {identity: number for number, part in enumerate(order_of_parts(plan)) for identity in part}
    found = []
    for group in limits.together:
        if len({place[identity] for identity in group}) > 1:
            found.append(f"layers {', '.join(map(str, group))} must share a stage")
    for source, target in limits.handed:
        if place[target] > place[source] + 1:
            found.append(f"what layer {source} hands to layer {target} passes over a stage")
    if limits.ways:
        blocks = set(limits.blocks)
        chosen = [(identity in blocks, way) for stage in plan.stages for identity, way in stage.configurations.items()]
        used = {way for block, way in chosen if block}
        if len(used) > 1 or not used <= set(limits.ways):
            found.append(f"all blocks must run alike, {' or '.join(limits.ways)}, and they run {_listed(used)}")
        ends = {way for block, way in chosen if not block} - {"none"}
        if ends:
            found.append(f"the model's ends must recompute nothing, and they run {_listed(ends)}")
    first = plan.stages[0]
    mesh = Mesh(
        stages=len(plan.stages),
        data=first.data_parallel,
        tensor=first.tensor_parallel,
        **first.shared._asdict(),
        zero=plan.zero,
        zero_shards=plan.zero_shards,
        schedule=plan.schedule,
        microbatches=problem.microbatches // first.data_parallel,
    )
    return [*found, *limits.meshes.refusals(mesh, "the runtime")]


def alike(problem: HybridProblem) -> dict[str, HybridProblem]:
    """By the way in which all blocks run, what the problem is then; itself where each layer may run in its own."""
    limits = problem.step.limits
    if not limits.ways:
        return {"": problem}
    blocks = set(limits.blocks)

    def only(layer: Layer, way: str) -> Layer:
        kept = {
            degree: tuple(choice for choice in row if choice.id == way) for degree, row in layer.configurations.items()
        }
        return msgspec.structs.replace(layer, configurations={degree: row for degree, row in kept.items() if row})

    def chosen(layer: Layer, way: str) -> Layer:
        return only(layer, way if layer.id in blocks else "none")

    def has(way: str) -> bool:
        spaces = (problem.layers, *(shared.layers for shared in problem.spreads))
        return all(chosen(layer, way).configurations for layers in spaces for layer in layers)

    return {way: problem.with_layers(partial(chosen, way=way)) for way in limits.ways if has(way)}


def _listed(ways: set[str]) -> str:
    return ", ".join(sorted(ways)) or "none of it"


def uncut(problem: HybridProblem, order: Sequence[int], sets: set[int]) -> set[int]:
    """Those downsets, bits by place in ``order``, with all or none of the layers that share a stage."""
    place = {problem.layers[number].id: v for v, number in enumerate(order)}
    masks = [sum(1 << place[identity] for identity in group) for group in problem.step.limits.together]
    return {members for members in sets if all(members & mask in (0, mask) for mask in masks)}


def passed_over(problem: HybridProblem, order: Sequence[int], sets: Sequence[int]) -> Bools:
    """(Z, Z) by inner and outer downset, whether the stage between them is passed over by what must not be."""
    place = {problem.layers[number].id: v for v, number in enumerate(order)}
    bits = as_bits(sets, len(order)).astype(bool)
    found = np.zeros((len(sets), len(sets)), dtype=bool)
    for source, target in problem.step.limits.handed:
        found |= bits[:, place[target]][:, None] & ~bits[:, place[source]][None, :]
    return found
