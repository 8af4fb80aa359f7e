"""Blocks over the items of an instance whose devices are alike, and the way back."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Ints, as_arrays
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.nouns.pipeline import Plan, Stage
from partita.problems.throughput.contraction.instance import Instance, operators_at
from partita.problems.throughput.problem import ThroughputProblem


def blocks_at(
    instance: Instance, place: int, devices: int, memory: float = np.inf, reload: float = 0.0
) -> BlockProblem:
    """Blocks for devices of one kind of an instance.

    Parameters
    ----------
    instance
        The items; it may be contracted further than every split allows, or its order say more, as long as some best
        split is left.
    place
        The kind.
    devices
        Number of blocks.
    memory, reload
        Limit of a block, and the time for each byte beyond it; infinite for a hard limit.
    """
    share = float(instance.in_flight[1])
    cost = instance.net_cost[:, place]
    kept = np.flatnonzero(cost > 0)
    own = {
        "net": instance.net.chosen(kept),
        "work": instance.work[:, place],
        "cost": cost[kept],
        "held": instance.fixed + share * instance.active,
        "cover_bytes": instance.cover_fixed + share * instance.cover_active,
        "limit": [memory, reload],
        "devices": devices,
        "kept": kept,
    }
    return as_arrays(BlockProblem, vars(instance) | own)


def plan_of(problem: ThroughputProblem, blocks: BlockProblem, label: Ints) -> Plan:
    """The plan of a partition; empty blocks get no stage."""
    names = [(name, problem.kinds[kind].name) for name, kind in problem.device_names()]
    rows = [row for row in operators_at(problem, blocks.group, label, blocks.devices) if row]
    stages = [Stage(kind=k, devices=(d,), operators=row) for (d, k), row in zip(names, rows, strict=False)]
    return Plan(stages=tuple(stages), contiguity="acyclic")
