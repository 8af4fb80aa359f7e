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
        Fraction(chosen[v].memory_per_microbatch_bytes) * stored
        + Fraction(chosen[v].memory_bytes)
        + Fraction(chosen[v].sharded_bytes) / d
        for v in members
    )
    return time, memory


def stage_cost_in_machines(
    problem: Any,
    members: frozenset[int],
    earlier: frozenset[int],
    inside: int,
    machines: int,
    s: int,
    chosen: dict[int, Any],
) -> tuple[Fraction, Fraction]:
    """The same with machines: ``inside`` replicas in each of so many machines, s over all of them.

    A machine's part is a flat problem with a share of the batch; everything is divided among the machines.
    """
    share = problem.replace(hierarchy=None)
    if problem.weight_sync_per_batch:
        time, memory = stage_cost(share.replace(weight_sync_per_batch=False), members, earlier, inside, 0, chosen)
        weights = sum(Fraction(chosen[v].weight_bytes) for v in members) / Fraction(problem.bandwidth_bytes_per_unit)
        own_batch = Fraction(problem.microbatches, machines)
        time += Fraction(4 * (inside - 1), inside) * weights * (1 / own_batch - Fraction(1, inside))
    else:
        time, memory = stage_cost(share, members, earlier, inside, 0, chosen)
    stored = math.ceil(Fraction(s, inside * machines))
    for v in members:
        memory += Fraction(chosen[v].memory_per_microbatch_bytes) * stored
        # One machine alone would hold what all machines share out.
        memory -= Fraction(chosen[v].sharded_bytes) * (Fraction(1, inside) - Fraction(1, inside * machines))
    return time / machines, memory


def link_cost(problem: Any, members: frozenset[int], machines: int) -> Fraction:
    """Time per sample that the link of each machine of a group with these layers is busy."""
    moved = sum(2 * Fraction(e.bytes) for e in problem.edges if (e.source in members) != (e.target in members))
    weights = Fraction(0)
    for layer in problem.layers:
        if layer.id in members:
            whole = layer.weight_bytes
            if whole is None:
                whole = min(t * max(c.weight_bytes for c in row) for t, row in layer.configurations.items())
            weights += Fraction(whole)
    per = problem.microbatches if problem.weight_sync_per_batch else machines
    moved += Fraction(4 * (machines - 1), per) * weights
    return moved / machines / Fraction(problem.hierarchy.machine_bandwidth_bytes_per_unit)


def accepted(limit: float) -> Fraction:
    """What a device may hold: the limit, and what a share of 10⁻⁹ of it is more."""
    return Fraction(limit) / (1 - Fraction(1, 10**9))


def judge(problem: Any, plan: Any) -> tuple[float, list[str]]:
    """Objective and the names of the rules that a plan breaks."""
    broken = []
    stages = list(plan.stages)
    if sum(stage.data_parallel * stage.tensor_parallel for stage in stages) > problem.devices:
        broken.append("devices")
    worst = Fraction(0)
    if problem.hierarchy is not None:
        used = 0
        for group in sorted({stage.machine_group for stage in stages}):
            shared = [stage for stage in stages if stage.machine_group == group]
            (machines,) = {stage.machines for stage in shared}
            used += machines
            inside = sum(stage.data_parallel // machines * stage.tensor_parallel for stage in shared)
            if inside > min(problem.devices, problem.hierarchy.devices_per_machine):
                broken.append("devices of a machine")
            worst = max(worst, link_cost(problem, frozenset(v for stage in shared for v in stage.operators), machines))
        if used > max(1, problem.devices // problem.hierarchy.devices_per_machine):
            broken.append("machines")
    if sum(stage.data_parallel for stage in stages) > problem.microbatches:
        broken.append("microbatches")
    placed = [v for stage in stages for v in stage.operators]
    assert sorted(placed) == sorted(layer.id for layer in problem.layers)
    layers = {layer.id: layer for layer in problem.layers}
    earlier: frozenset[int] = frozenset()
    for number, stage in enumerate(stages):
        s = sum(later.data_parallel for later in stages[number:])
        members = frozenset(stage.operators)
        chosen = {
            v: next(c for c in layers[v].configurations[stage.tensor_parallel] if c.id == stage.configurations[v])
            for v in members
        }
        if problem.hierarchy is None:
            time, memory = stage_cost(problem, members, earlier, stage.data_parallel, s, chosen)
        else:
            inside = Fraction(stage.data_parallel, stage.machines)
            assert inside.denominator == 1
            time, memory = stage_cost_in_machines(problem, members, earlier, int(inside), stage.machines, s, chosen)
        worst = max(worst, time)
        # What rounding alone can put above the limit is within it.
        if problem.memory_bytes is not None and memory > accepted(problem.memory_bytes):
            broken.append("memory")
        if problem.weight_sync_per_batch and problem.microbatches % stage.data_parallel:
            broken.append("divisor")
        earlier |= members
    return float(worst), broken
