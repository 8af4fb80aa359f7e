"""Makespan problems over memories and bandwidths, and of a model over numbers of devices.

``relaxes``: with the same operators on as many devices that have as much memory, and transfers that take no longer,
every schedule, moved to the left, is one of the easier problem and ends no later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from partita.ground.errors import InputError
from partita.problems.facets.sweep import DEVICE_AXES, Axis, Sweep
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.options import MakespanChanges, change
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem
from partita.problems.makespan.schedules import devices_of, left_shifted, starts_of


class MakespanSweep(Sweep[MakespanProblem, MakespanPlan]):
    """Devices (of a model's cluster), their memory, and factors on every bandwidth."""

    axes: Sequence[Axis] = DEVICE_AXES

    def at(self, problem: MakespanProblem, point: Mapping[str, Any]) -> MakespanProblem:
        if point.get("devices") is not None:
            raise InputError(
                f"problem {problem.name!r} states times for each of its devices; only a model on a cluster can have "
                "other numbers of devices"
            )
        memory, bandwidth = point.get("memory"), point.get("bandwidth", 1.0)
        if memory is not None:
            problem = change(problem, MakespanChanges(memory=memory))
        return problem.scale_communication(1.0 / bandwidth)

    def place(self, problem: MakespanProblem, point: Mapping[str, Any]) -> dict[str, Any]:
        limits = {device.memory for device in problem.devices}
        return {
            "devices": len(problem.devices),
            "memory_bytes": limits.pop() if len(limits) == 1 else None,
            "bandwidth": point.get("bandwidth", 1.0),
        }

    def relaxes(self, easier: MakespanProblem, harder: MakespanProblem) -> bool:
        """By what the module says."""
        a, b = easier, harder
        if len(a.devices) != len(b.devices) or a.operators != b.operators or a.precedence != b.precedence:
            return False
        if any(
            mine.memory is not None and (other.memory is None or mine.memory < other.memory)
            for mine, other in zip(a.devices, b.devices, strict=True)
        ):
            return False
        switches = ("sender_congestion", "receiver_congestion", "serial_operators")
        if any(getattr(a, name) and not getattr(b, name) for name in switches) or len(a.flows) != len(b.flows):
            return False
        return all(
            (mine.id, mine.source, mine.target) == (other.id, other.source, other.target)
            and all(
                x <= y for row, its in zip(mine.times, other.times, strict=True) for x, y in zip(row, its, strict=True)
            )
            for mine, other in zip(a.flows, b.flows, strict=True)
        )

    def transfer(self, plan: MakespanPlan, problem: MakespanProblem) -> MakespanPlan | None:
        """The same devices and orders, everything as early as it can be; None for other operators."""
        if {op.id for op in problem.operators} != plan.operators.keys():
            return None
        if max(placed.device for placed in plan.operators.values()) >= len(problem.devices):
            return None
        instance = build_instance(problem)
        return left_shifted(instance, devices_of(instance, plan), *starts_of(instance, plan))
