"""Latency problems over accelerator counts, memories and bandwidths.

``relaxes``: with the same operators and edges, at least as many accelerators, as much memory and as many pieces, and
transfers and operators that take no longer, every plan is feasible whenever it was, and takes no longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from partita.problems.facets.sweep import DEVICE_AXES, Axis, Sweep
from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.problem import LatencyProblem


class LatencySweep(Sweep[LatencyProblem, LatencyPlan]):
    """Accelerators, their memory, and factors on every bandwidth."""

    axes: Sequence[Axis] = DEVICE_AXES

    def at(self, problem: LatencyProblem, point: Mapping[str, Any]) -> LatencyProblem:
        devices, memory, bandwidth = point.get("devices"), point.get("memory"), point.get("bandwidth", 1.0)
        if devices is not None or memory is not None:
            fields = {} if devices is None else {"accelerators": devices}
            problem = problem.replace(memory_bytes=memory, **fields)
        return problem if bandwidth == 1.0 else problem.scale_communication(1.0 / bandwidth)

    def place(self, problem: LatencyProblem, point: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "devices": problem.accelerators,
            "memory_bytes": problem.memory_bytes,
            "bandwidth": point.get("bandwidth", 1.0),
        }

    def relaxes(self, easier: LatencyProblem, harder: LatencyProblem) -> bool:
        """By what the module says."""
        a, b = easier, harder
        if a.accelerators < b.accelerators or a.limit_bytes < b.limit_bytes or a.pieces < b.pieces:
            return False
        if a.edges != b.edges or len(a.operators) != len(b.operators):
            return False
        for mine, other in zip(a.operators, b.operators, strict=True):
            same = ("id", "cpu_time", "accelerator_time", "memory_bytes", "colocation", "backward")
            if any(getattr(mine, field) != getattr(other, field) for field in same):
                return False
            if mine.transfer_time > other.transfer_time:
                return False
        return True

    def transfer(self, plan: LatencyPlan, problem: LatencyProblem) -> LatencyPlan | None:
        """The same pieces; None if there are too few accelerators."""
        used = [row for row in plan.accelerators if row]
        return LatencyPlan(accelerators=tuple(used)) if len(used) <= problem.accelerators else None
