"""Mapping problems over replicas and bandwidths.

``relaxes``: with the same stages, transfers, replicas and form, times that are no longer and links that are no slower,
no mapping takes longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from partita.problems.facets.sweep import DEVICE_AXES, Axis, Sweep, listed
from partita.problems.mapping.problem import MappingProblem, Placement
from partita.problems.settings import setting


class MappingSweep(Sweep[MappingProblem, Placement]):
    """Replicas, and factors on every bandwidth."""

    axes: Sequence[Axis] = (
        Axis(
            "replicas",
            listed(setting("Replicas.", "--replicas", type=int, metavar="R", least=1, unit="replicas")),
            "replicas",
        ),
        DEVICE_AXES[2],
    )

    def at(self, problem: MappingProblem, point: Mapping[str, Any]) -> MappingProblem:
        replicas, bandwidth = point.get("replicas"), point.get("bandwidth", 1.0)
        if replicas is not None:
            problem = problem.replace(replicas=replicas)
        if bandwidth == 1.0:
            return problem
        if problem.machines:
            faster = (
                msgspec.structs.replace(
                    one,
                    inside_bytes_per_s=one.inside_bytes_per_s * bandwidth,
                    outside_bytes_per_s=one.outside_bytes_per_s * bandwidth,
                )
                for one in problem.machines
            )
            return problem.replace(machines=tuple(faster))
        rows = tuple(
            tuple(None if entry is None else entry * bandwidth for entry in row)
            for row in problem.bandwidth_bytes_per_s
        )
        return problem.replace(bandwidth_bytes_per_s=rows)

    def place(self, problem: MappingProblem, point: Mapping[str, Any]) -> dict[str, Any]:
        return {"replicas": problem.replicas, "bandwidth": point.get("bandwidth", 1.0)}

    def relaxes(self, easier: MappingProblem, harder: MappingProblem) -> bool:
        """By what the module says."""
        a, b = easier, harder
        same = ("replicas", "stages", "transfers", "form")
        if any(getattr(a, field) != getattr(b, field) for field in same):
            return False
        devices = range(a.device_count)
        if len(devices) != b.device_count or bool(a.machines) != bool(b.machines):
            return False
        if a.machines:
            return len(a.machines) == len(b.machines) and all(
                (one.count, one.devices) == (other.count, other.devices)
                and one.inside_bytes_per_s >= other.inside_bytes_per_s
                and one.outside_bytes_per_s >= other.outside_bytes_per_s
                for one, other in zip(a.machines, b.machines, strict=True)
            )
        return all(a.link(source, target) >= b.link(source, target) for source in devices for target in devices)

    def transfer(self, plan: Placement, problem: MappingProblem) -> Placement | None:
        """The same devices, if it has as many stages and replicas."""
        return plan if tuple(map(len, plan.placement)) == problem.counts else None
