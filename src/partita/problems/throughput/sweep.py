"""Throughput problems over device counts, memories and bandwidths.

``relaxes`` checks what makes every plan of one problem, with its devices renamed, a plan of another that is feasible
whenever it was and costs no more: the same operators, tensors, parameters and saved tensors, the same rules, and, kind
by kind, at least as many devices, at least as much memory, transfers at most as long, and at most as many microbatches
in flight at any distance from the last stage. Loads and memory of a stage rise with transfer times and microbatches in
flight and do not depend on devices left empty, so the optimum of the relaxed problem is at most that of the other one.
More devices, more memory and more bandwidth relax a problem, but not always: training under GPipe with more
microbatches for more devices needs more memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from partita.engines.search.result import Result
from partita.ground.units import format_time
from partita.nouns.pipeline import Plan, Stage
from partita.problems.facets.sweep import DEVICE_AXES, Axis, Sweep
from partita.problems.throughput.devices import TRANSFER_TIMES
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.simulated import simulated_pipeline
from partita.problems.throughput.variants import scale_bandwidth

#: Fields that decide what a plan is and costs.
_SAME = (
    *("communication", "streaming", "working_memory", "weight_sync_per_batch"),
    *("operators", "tensors", "parameters", "saved"),
)


class ThroughputSweep(Sweep[ThroughputProblem, Plan]):
    """Accelerators, their memory, and factors on every bandwidth."""

    axes: Sequence[Axis] = DEVICE_AXES

    def at(self, problem: ThroughputProblem, point: Mapping[str, Any]) -> ThroughputProblem:
        devices, memory = point.get("devices"), point.get("memory")
        if devices is not None or memory is not None:
            problem = problem.replace(accelerators=devices, memory_bytes=memory)
        return scale_bandwidth(problem, point.get("bandwidth", 1.0))

    def place(self, problem: ThroughputProblem, point: Mapping[str, Any]) -> dict[str, Any]:
        """Devices, memory of each (None without a limit, or for several), and the factor."""
        memories = {kind.memory_bytes for kind in problem.kinds if kind.accelerator}
        return {
            "devices": sum(kind.count for kind in problem.kinds if kind.accelerator),
            "memory_bytes": next(iter(memories)) if len(memories) == 1 else None,
            "bandwidth": point.get("bandwidth", 1.0),
        }

    def relaxes(self, easier: ThroughputProblem, harder: ThroughputProblem) -> bool:
        """By what the module says."""
        a, b = easier, harder
        if a.max_replicas < b.max_replicas or len(a.kinds) != len(b.kinds) or len(a.groups) != len(b.groups):
            return False
        for mine, other in zip(a.kinds, b.kinds, strict=True):
            if (mine.name, mine.accelerator) != (other.name, other.accelerator) or mine.count < other.count:
                return False
            if mine.memory_bytes is not None and (other.memory_bytes is None or mine.memory_bytes < other.memory_bytes):
                return False
        links = zip((*a.kinds, *a.groups), (*b.kinds, *b.groups), strict=True)
        if any(getattr(x, time, 0.0) > getattr(y, time, 0.0) for x, y in links for time in TRANSFER_TIMES):
            return False
        # Devices of a group cannot stand in for those of another one.
        same_groups = [group.counts for group in a.groups] == [group.counts for group in b.groups]
        return same_groups and all(_same(a, b, field) for field in _SAME) and _schedule_relaxes(a, b)

    def transfer(self, plan: Plan, problem: ThroughputProblem) -> Plan | None:
        """On the problem's own devices, kind by kind in the same order; None if there are too few."""
        devices = problem.device_names()
        if {device for stage in plan.stages for device in stage.devices} <= dict(devices).keys():
            return plan
        names: dict[str, list[str]] = {}
        for name, kind in devices:
            names.setdefault(problem.kinds[kind].name, []).append(name)
        if problem.groups:
            return None
        stages: list[Stage] = []
        for stage in plan.stages:
            free = names.get(stage.kind, [])
            if len(free) < len(stage.devices):
                return None
            stages.append(msgspec.structs.replace(stage, devices=tuple(free.pop(0) for _ in stage.devices)))
        return msgspec.structs.replace(plan, stages=tuple(stages))

    def figures(
        self, points: Any, results: Sequence[Result[ThroughputProblem, Plan, Any]], answers: Any
    ) -> list[dict[str, Any]]:
        """Depth of the pipeline, and the time of one sample through it."""
        found: list[dict[str, Any]] = [{"depth": None, "latency": None} for _ in results]
        for row, result in zip(found, results, strict=True):
            if result.plan is not None and result.evaluation is not None:
                run = simulated_pipeline(result.problem, result.plan, result.evaluation)
                row |= {} if run is None else {"depth": run.formula.depth, "latency": run.latency}
        return found

    def columns(self) -> Mapping[str, tuple[str, Callable[[Any, str], str]]]:
        return {"latency": ("latency", format_time)}


def _same(a: ThroughputProblem, b: ThroughputProblem, field: str) -> bool:
    return getattr(a, field) is getattr(b, field) or bool(getattr(a, field) == getattr(b, field))


def _schedule_relaxes(a: ThroughputProblem, b: ThroughputProblem) -> bool:
    """No more microbatches in flight anywhere; their number itself matters where it divides the synchronisation."""
    if (a.schedule.name, a.schedule.recompute) != (b.schedule.name, b.schedule.recompute):
        return False
    if a.weight_sync_per_batch and a.schedule.microbatches < b.schedule.microbatches:
        return False
    return all(
        a.schedule.in_flight(left, replicas) <= b.schedule.in_flight(left, replicas)
        for replicas in range(1, b.max_replicas + 1)
        for left in range(replicas, b.device_count + 1)
    )
