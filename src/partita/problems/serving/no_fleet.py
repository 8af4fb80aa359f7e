"""Why a problem has no fleet, and what would be enough."""

from __future__ import annotations

import math
from collections.abc import Iterator

from partita.ground.errors import InputError
from partita.problems.serving.evaluate import evaluate
from partita.problems.serving.fleets import FleetBound
from partita.problems.serving.problem import ServingPlan, ServingProblem, UnitGroup
from partita.problems.serving.request_values import Item


def why_no_fleet(problem: ServingProblem) -> str:
    """Why no fleet is feasible, and what would be enough."""
    bound = FleetBound(problem)
    targets = problem.targets
    if (fastest := bound.too_fast) is not None:
        return _unmet("TPOT", targets.tpot_s, "between two tokens lie", fastest.gap_s, fastest)
    if (soonest := bound.too_late) is not None:
        return _unmet("TTFT", targets.ttft_s, "the first token takes", soonest.first_s, soonest)
    least, longest = bound.least_time(), bound.longest_s
    if problem.goal == "cost" and 0 < least < math.inf and longest < least * bound.count:
        enough = str(math.ceil(problem.devices * least * bound.count / longest)) if longest > 0 else "more"
        return (
            f"no fleet keeps up: {bound.count} requests take all {problem.devices} devices at least "
            f"{least * bound.count:.4g} s, and {longest:.4g} s are allowed; at least "
            f"{enough} devices like them, a lower rate or a longer limit would be needed"
        )
    near = min(_full(bound, 1e-3 / least if 0 < least < math.inf else 1.0), key=lambda one: one[0], default=None)
    of = "" if near is None else f" ({near[1]} come nearest: {near[2]})"
    return f"no fleet keeps the targets{of}; a longer limit or faster devices would be needed"


def _unmet(name: str, limit_s: float | None, what: str, least_s: float, item: Item) -> str:
    return (
        f"no fleet keeps a {name} of {limit_s:.4g} s: {what} at least {least_s:.4g} s, of one request alone "
        f"({item.form.layout.label} on {item.form.kind}); a longer limit, faster devices or smaller formats would be "
        "needed"
    )


def _full(bound: FleetBound, slow: float) -> Iterator[tuple[float, str, str]]:
    """By how much the devices of a pool in units of one layout miss the targets, their name, and what they miss."""
    problem, targets = bound.problem, bound.problem.targets
    seen = set()
    for item in bound.items:
        key = item.form.kind, item.form.layout
        count = problem.pool(item.form.kind).devices // item.form.devices
        if item.role != "both" or key in seen or not count:
            continue
        seen.add(key)
        units = (UnitGroup(unit=item.number, count=count),)
        try:
            found = evaluate(problem, ServingPlan(units=units, rate_per_s=slow if problem.goal == "rate" else None))
        except InputError:
            continue
        if found.violations:
            missed = max(found.ttft_at / (targets.ttft_s or math.inf), found.tpot_at / (targets.tpot_s or math.inf))
            yield missed, f"{count} × {item.form.layout.label} on {item.form.kind}", found.violations[0]
