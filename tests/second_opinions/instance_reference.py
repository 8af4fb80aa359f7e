"""Load, memory and optimum of a contiguous problem from the arrays of an ``Instance`` alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.graph_arrays import lists
from partita.problems.throughput.contraction.instance import Instance

__all__ = ["best_over_items", "instance_load", "instance_memory"]


def _cut(instance: Instance, inside: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which nets have a pin inside and another one outside."""
    return np.array(
        [inside[pins].any() and not inside[pins].all() for pins in lists(instance.net.ptr, instance.net.pins)],
        dtype=bool,
    )


def _mask(instance: Instance, items: Sequence[int]) -> npt.NDArray[np.bool_]:
    inside = np.zeros(instance.items, dtype=bool)
    inside[list(items)] = True
    return inside


def instance_load(instance: Instance, items: Sequence[int], kind: int) -> tuple[float, float]:
    """Load of a device that holds the items, and the backward share of it; infinite where it cannot run one."""
    inside = _mask(instance, items)
    cut = _cut(instance, inside)
    load = instance.work[inside, kind].sum() + instance.net_cost[cut, kind].sum()
    backward = instance.work_backward[inside, kind].sum() + instance.net_backward[cut, kind].sum()
    return float(load), float(backward)


def instance_memory(instance: Instance, items: Sequence[int], in_flight: int) -> float:
    """Memory of a device that holds the items with that many microbatches in flight."""
    inside = _mask(instance, items)
    touched = np.array([inside[pins].any() for pins in lists(instance.cover.ptr, instance.cover.pins)], dtype=bool)
    total = instance.fixed[inside].sum() + instance.workspace[inside].max() + instance.cover_fixed[touched].sum()
    active = instance.active[inside].sum() + instance.cover_active[touched].sum()
    if not instance.recompute:
        return float(total + in_flight * active)
    enters = _cut(instance, inside) & (instance.net_source >= 0)
    enters[enters] &= ~inside[instance.net_source[enters]]
    return float(total + active + in_flight * instance.net_entering[enters].sum())


def best_over_items(instance: Instance) -> float | None:
    """Optimal objective over all acyclic splits of the items, None if none is feasible.

    Stages are chosen from the last to the first; each takes any set that no remaining item comes after.
    """
    successors = [sum(1 << b for b in row) for row in lists(instance.graph.succ_ptr, instance.graph.succ)]
    total = int(instance.count.sum())
    known: dict[tuple[int, tuple[int, ...]], float] = {}

    def solve(remaining: int, counts: tuple[int, ...]) -> float:
        if not remaining:
            return 0.0
        key = (remaining, counts)
        if key in known:
            return known[key]
        value = np.inf
        in_flight = int(instance.in_flight[total - sum(counts) + 1]) if sum(counts) else 0
        mask = remaining
        while mask and sum(counts):
            items = [item for item in range(instance.items) if mask >> item & 1]
            rest = remaining & ~mask
            if not any(successors[item] & rest for item in items):
                need = instance_memory(instance, items, in_flight)
                for kind, count in enumerate(counts):
                    if not count or need > instance.memory[kind]:
                        continue
                    load = instance_load(instance, items, kind)[0]
                    if load < value:
                        left = tuple(c - (k == kind) for k, c in enumerate(counts))
                        value = min(value, max(load, solve(rest, left)))
            mask = (mask - 1) & remaining
        known[key] = value
        return value

    answer = solve((1 << instance.items) - 1, tuple(int(c) for c in instance.count))
    return None if np.isinf(answer) else float(answer)
