"""Serving problems over devices, requests in flight, rates, promises and roles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from partita.engines.search.result import Result
from partita.ground.units import format_time
from partita.problems.facets.model import ModelPlan
from partita.problems.facets.sweep import DEVICE_AXES, Axis, Sweep, listed
from partita.problems.serving.evaluate import ServingEvaluation
from partita.problems.serving.options import loaded
from partita.problems.serving.problem import ServingPlan, ServingProblem, resized
from partita.problems.serving.shown import units_words
from partita.problems.settings import setting


def _limit(value: Any) -> str:
    return "no limit" if value is None else format_time(value)


class ServingSweep(Sweep[ServingProblem, ServingPlan]):
    """No point says anything of another: more devices may be worse where queues are chosen unluckily.

    Over promises it is the curve of what a device gives against what a user gets.
    """

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
            show=lambda value: "not stated" if value is None else f"{value:g}",
        ),
        Axis(
            "ttft",
            listed(setting("Seconds to the first token.", "--ttft", type=float, metavar="S", above=0, unit="seconds")),
            "TTFT",
            show=_limit,
        ),
        Axis(
            "tpot",
            listed(setting("Seconds per token.", "--tpot", type=float, metavar="S", above=0, unit="seconds")),
            "TPOT",
            show=_limit,
        ),
        Axis(
            "roles",
            listed(
                setting(
                    "Roles of units: both, split or any.",
                    "--roles",
                    type=Literal["both", "split", "any"],
                    metavar="ROLES",
                    unit="roles",
                )
            ),
            "roles",
        ),
    )

    def at(self, problem: ServingProblem, point: Mapping[str, Any]) -> ServingProblem:
        if point.get("devices") is not None:
            problem = resized(problem, point["devices"])
        promises = {"ttft_s": point.get("ttft"), "tpot_s": point.get("tpot")}
        stated = {name: value for name, value in promises.items() if value is not None}
        if stated:
            problem = problem.replace(targets=msgspec.structs.replace(problem.targets, **stated))
        if point.get("roles") is not None:
            problem = problem.replace(roles=point["roles"])
        concurrency, rate = point.get("concurrency"), point.get("rate")
        return problem if concurrency is None and rate is None else loaded(problem, concurrency, rate)

    def place(self, problem: ServingProblem, point: Mapping[str, Any]) -> dict[str, Any]:
        workload, targets = problem.workload, problem.targets
        return {
            "devices": problem.devices,
            "concurrency": workload.concurrency,
            "rate": workload.rate_per_s,
            "ttft": targets.ttft_s,
            "tpot": targets.tpot_s,
            "roles": problem.roles,
        }

    def figures(
        self,
        points: Sequence[Mapping[str, Any]],
        results: Sequence[Result[ServingProblem, ServingPlan, Any]],
        answers: Sequence[ModelPlan[ServingProblem] | None],
    ) -> list[dict[str, Any]]:
        return [_figures(result) for result in results]

    def columns(self) -> Mapping[str, tuple[str, Callable[[Any, str], str]]]:
        def number(value: Any, unit: str) -> str:
            return f"{value:.4g}"

        return {
            "requests_per_s": ("requests/s", number),
            "tokens_per_s_per_device": ("tokens/s per device", number),
            "tokens_per_s_per_user": ("tokens/s per user", number),
            "units": ("units", lambda value, unit: str(value)),
        }


def _figures(result: Result[ServingProblem, ServingPlan, Any]) -> dict[str, Any]:
    """What devices give and users get; a user's tokens per second are those of the mean time per token."""
    names = ("requests_per_s", "tokens_per_s", "tokens_per_s_per_device", "tokens_per_s_per_user", "used_devices")
    if result.plan is None or result.evaluation is None:
        return dict.fromkeys((*names, "ttft_at", "tpot_at", "units"))
    e: ServingEvaluation = result.evaluation
    per_user = 1.0 / e.tpot_s.mean if e.tpot_s.mean > 0 else None
    values = (e.requests_per_s, e.tokens_per_s, e.tokens_per_s_per_device, per_user, e.devices)
    return {
        **dict(zip(names, values, strict=True)),
        "ttft_at": e.ttft_at,
        "tpot_at": e.tpot_at,
        "units": units_words(result.problem, result.plan),
    }
