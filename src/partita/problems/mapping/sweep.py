"""Mapping problems over replicas and bandwidths.

``relaxes``: with the same stages, transfers, replicas and form, times that are no longer and links that are no slower,
no mapping takes longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
        devices = range(len(a.bandwidth_bytes_per_s))
        if len(devices) != len(b.bandwidth_bytes_per_s):
            return False
        return all(a.link(source, target) >= b.link(source, target) for source in devices for target in devices)

    def transfer(self, plan: Placement, problem: MappingProblem) -> Placement | None:
        """The same devices, if it has as many stages and replicas."""
        return plan if tuple(map(len, plan.placement)) == problem.counts else None
