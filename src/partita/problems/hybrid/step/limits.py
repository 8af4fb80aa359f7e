"""What a runtime's stages have to keep, of plans of a step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partita.problems.hybrid.downsets import as_bits
from partita.problems.hybrid.plan import HybridPlan, HybridStage
from partita.problems.hybrid.problem import HybridProblem


def parts_of(stage: HybridStage) -> tuple[tuple[int, ...], ...]:
    """The parts of a stage that are passed one after the other."""
    return stage.chunks or (stage.operators,)


def order_of_parts(plan: HybridPlan) -> Sequence[tuple[int, ...]]:
    """All parts in the order in which a microbatch passes them."""
    return [parts_of(stage)[number] for number in range(plan.chunks) for stage in plan.stages]


def limit_violations(problem: HybridProblem, plan: HybridPlan) -> list[str]:
    """What a plan does not keep of a step's ``StageLimits``; nothing of plans whose stages have unlike many parts."""
    if problem.training is None or len({len(parts_of(stage)) for stage in plan.stages}) > 1:
        return []
    limits = problem.training.limits
    place = {identity: number for number, part in enumerate(order_of_parts(plan)) for identity in part}
    found = []
    for group in limits.together:
        if len({place[identity] for identity in group}) > 1:
            found.append(f"layers {', '.join(map(str, group))} must share a stage")
    for source, target in limits.handed:
        if place[target] > place[source] + 1:
            found.append(f"what layer {source} hands to layer {target} passes over a stage")
    return found


def uncut(problem: HybridProblem, order: Sequence[int], sets: set[int]) -> set[int]:
    """Those suffix sets, bits by place in ``order``, with all or none of the layers that share a stage."""
    assert problem.training is not None
    place = {problem.layers[number].id: v for v, number in enumerate(order)}
    masks = [sum(1 << place[identity] for identity in group) for group in problem.training.limits.together]
    return {members for members in sets if all(members & mask in (0, mask) for mask in masks)}


def passed_over(problem: HybridProblem, order: Sequence[int], sets: Sequence[int]) -> npt.NDArray[np.bool_]:
    """(Z, Z) by inner and outer suffix set, whether the stage between them is passed over by what must not be."""
    assert problem.training is not None
    place = {problem.layers[number].id: v for v, number in enumerate(order)}
    bits = as_bits(sets, len(order)).astype(bool)
    found = np.zeros((len(sets), len(sets)), dtype=bool)
    for source, target in problem.training.limits.handed:
        found |= bits[:, place[target]][:, None] & ~bits[:, place[source]][None, :]
    return found
