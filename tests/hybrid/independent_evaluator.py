"""What a hybrid plan costs, written a second time from the definition and sharing no code with the package.

Plans and problems are read as plain data; sums are exact fractions.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any


def stage_cost(
    problem: Any, members: frozenset[int], earlier: frozenset[int], d: int, s: int, chosen: dict[int, Any]
) -> tuple[Fraction, Fraction]:
    """Time per sample and memory of one stage.

    ``members`` are its layers, ``earlier`` the layers of all stages before it, ``chosen`` a configuration per layer.
    """
    exchanged = Fraction(0)
    for edge in problem.edges:
        inside, outside = edge.target in members, edge.source in members
        if inside and not outside:
            assert edge.source in earlier, "an edge goes backwards"
            exchanged += 2 * (Fraction(edge.bytes) + Fraction(chosen[edge.target].sync_in_bytes.get(edge.source, 0)))
        if outside and not inside:
            exchanged += 2 * (Fraction(edge.bytes) + Fraction(chosen[edge.source].sync_out_bytes.get(edge.target, 0)))
    weights = sum(Fraction(chosen[v].weight_bytes) for v in members)
    compute = sum(Fraction(chosen[v].time) for v in members)
    bandwidth = Fraction(problem.bandwidth_bytes_per_unit)
    per = problem.microbatches if problem.weight_sync_per_batch else d
    time = (compute + (exchanged + Fraction(4 * (d - 1), per) * weights) / bandwidth) / d
    stored = math.ceil(Fraction(s, d))
    memory = sum(
        Fraction(chosen[v].memory_per_microbatch_bytes) * stored + Fraction(chosen[v].memory_bytes) for v in members
    )
    return time, memory


def judge(problem: Any, plan: Any) -> tuple[float, list[str]]:
    """Objective and the names of the rules that a plan breaks."""
    broken = []
    stages = list(plan.stages)
    if sum(stage.data_parallel * stage.tensor_parallel for stage in stages) > problem.devices:
        broken.append("devices")
    if sum(stage.data_parallel for stage in stages) > problem.microbatches:
        broken.append("microbatches")
    placed = [v for stage in stages for v in stage.operators]
    assert sorted(placed) == sorted(layer.id for layer in problem.layers)
    layers = {layer.id: layer for layer in problem.layers}
    earlier: frozenset[int] = frozenset()
    worst = Fraction(0)
    for number, stage in enumerate(stages):
        s = sum(later.data_parallel for later in stages[number:])
        members = frozenset(stage.operators)
        chosen = {
            v: next(c for c in layers[v].configurations[stage.tensor_parallel] if c.id == stage.configurations[v])
            for v in members
        }
        time, memory = stage_cost(problem, members, earlier, stage.data_parallel, s, chosen)
        worst = max(worst, time)
        if problem.memory_bytes is not None and memory > Fraction(problem.memory_bytes):
            broken.append("memory")
        if problem.weight_sync_per_batch and problem.microbatches % stage.data_parallel:
            broken.append("divisor")
        earlier |= members
    return float(worst), broken
