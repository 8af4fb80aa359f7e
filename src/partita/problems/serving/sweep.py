"""Serving problems over devices, requests in flight, and rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from partita.problems.facets.sweep import DEVICE_AXES, Axis, Sweep, listed
from partita.problems.serving.options import loaded
from partita.problems.serving.problem import ServingPlan, ServingProblem, resized
from partita.problems.settings import setting


class ServingSweep(Sweep[ServingProblem, ServingPlan]):
    """No point says anything of another: more devices may be worse where queues are chosen unluckily."""

    axes: Sequence[Axis] = (
        DEVICE_AXES[0],
        Axis(
            "concurrency",
            listed(setting("Requests in flight.", "--concurrency", type=int, metavar="N", least=1, unit="requests")),
            "in flight",
            show=lambda value: "open loop" if value is None else str(value),
        ),
        Axis(
            "rate",
            listed(setting("Requests per second.", "--rate", type=float, metavar="R", above=0, unit="requests/s")),
            "requests/s",
            show=lambda value: "closed loop" if value is None else f"{value:g}",
        ),
    )

    def at(self, problem: ServingProblem, point: Mapping[str, Any]) -> ServingProblem:
        if point.get("devices") is not None:
            problem = resized(problem, point["devices"])
        concurrency, rate = point.get("concurrency"), point.get("rate")
        if concurrency is None and rate is None:
            return problem
        return problem.replace(workload=loaded(problem.workload, concurrency, rate))

    def place(self, problem: ServingProblem, point: Mapping[str, Any]) -> dict[str, Any]:
        workload = problem.workload
        return {"devices": problem.devices, "concurrency": workload.concurrency, "rate": workload.rate_per_s}
