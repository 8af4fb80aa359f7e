"""Hybrid problems over device counts, memories and bandwidths.

``relaxes``: on as many devices with at least as much memory and bandwidth, and nothing else different, what a plan
holds is the same, and all that it computes and moves takes no longer. Device counts are not compared: in a step they
say which stages are in one machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from partita.engines.search.result import Result
from partita.ground.units import format_time
from partita.nouns.pipeline import Plan
from partita.problems.facets.model import ModelPlan
from partita.problems.facets.sweep import DEVICE_AXES, Axis, Sweep
from partita.problems.hybrid.kind import HybridKind
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.report.tables import degrees_text, stage_degrees
from partita.problems.hybrid.spaces import utilisation

#: Fields that points which relax one another may differ in.
_EASED = ("memory_bytes", "bandwidth_bytes_per_unit", "hierarchy", "others")


class HybridSweep(Sweep[HybridProblem, Plan]):
    """Devices, their memory, and factors on every bandwidth."""

    kind: HybridKind
    axes: Sequence[Axis] = DEVICE_AXES

    def at(self, problem: HybridProblem, point: Mapping[str, Any]) -> HybridProblem:
        devices, bandwidth = point.get("devices"), point.get("bandwidth", 1.0)
        changed = problem.replace(memory_bytes=point.get("memory"), **({} if devices is None else {"devices": devices}))
        return changed if bandwidth == 1.0 else changed.scale_communication(1.0 / bandwidth)

    def place(self, problem: HybridProblem, point: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "devices": problem.devices,
            "memory_bytes": problem.memory_bytes,
            "bandwidth": point.get("bandwidth", 1.0),
        }

    def relaxes(self, easier: HybridProblem, harder: HybridProblem) -> bool:
        """By what the module says."""
        a, b = easier, harder
        mine, other = a.hierarchy, b.hierarchy
        if a.devices != b.devices or len(a.others) != len(b.others) or (mine is None) != (other is None):
            return False
        if a.memory_bytes is not None and (b.memory_bytes is None or a.memory_bytes < b.memory_bytes):
            return False
        if a.bandwidth_bytes_per_unit < b.bandwidth_bytes_per_unit:
            return False
        if mine is not None and other is not None:
            same = mine.devices_per_machine == other.devices_per_machine
            if not same or mine.machine_bandwidth_bytes_per_unit < other.machine_bandwidth_bytes_per_unit:
                return False
        same = all(
            getattr(a, field) is getattr(b, field) or getattr(a, field) == getattr(b, field)
            for field in a.__struct_fields__
            if field not in _EASED
        )
        return same and all(itertools.starmap(self.relaxes, zip(a.others, b.others, strict=True)))

    def transfer(self, plan: Plan, problem: HybridProblem) -> Plan:
        """The plan as it is."""
        return plan

    def figures(
        self,
        points: Sequence[Mapping[str, Any]],
        results: Sequence[Result[HybridProblem, Plan, Any]],
        answers: Sequence[ModelPlan[Any] | None],
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for place, (result, answer) in enumerate(zip(results, answers, strict=True)):
            problem, plan = result.problem, result.plan
            worth = result.evaluation
            step = None if plan is None or worth is None else self.kind.simulated_step(problem, plan, worth)
            used = None
            if step is not None and answer is not None:
                used = utilisation(answer.graph, answer.cluster, step.per_microbatch)
            found.append(
                {
                    "microbatches": problem.microbatches,
                    "efficiency": _efficiency(place, points, results),
                    "step_per_microbatch": None if step is None else step.per_microbatch,
                    "step_per_sample": None if step is None else step.per_sample,
                    "bubble": None if step is None else step.bubble,
                    "model_flops_utilisation": used,
                    "used_devices": None if plan is None else plan.device_count,
                    "degrees": None if plan is None else degrees_text(plan),
                    "stages": None if plan is None else stage_degrees(plan),
                }
            )
        return found

    def columns(self) -> Mapping[str, tuple[str, Callable[[Any, str], str]]]:
        def share(value: Any, unit: str) -> str:
            return f"{value:.1%}"

        return {
            "efficiency": ("efficiency", share),
            "step_per_microbatch": ("with bubble", format_time),
            "model_flops_utilisation": ("MFU", share),
            "degrees": ("stages and degrees", lambda value, unit: str(value)),
        }


def _efficiency(
    place: int, points: Sequence[Mapping[str, Any]], results: Sequence[Result[HybridProblem, Any, Any]]
) -> float | None:
    """Device time per sample of the smallest point that differs in devices only and has a plan, over this one's."""

    def rest(point: Mapping[str, Any]) -> dict[str, Any]:
        return {axis: value for axis, value in point.items() if axis != "devices"}

    def per_sample(other: Result[HybridProblem, Any, Any]) -> float:
        worth = other.evaluation
        each = worth.per_microbatch if worth is not None else 0.0
        return float(each) * other.problem.devices / other.problem.microbatch_samples

    like = [
        result
        for point, result in zip(points, results, strict=True)
        if result.objective and rest(point) == rest(points[place])
    ]
    if not results[place].objective:
        return None
    return per_sample(min(like, key=lambda other: other.problem.devices)) / per_sample(results[place])
