"""Why a problem has no fleet, and what would be enough."""

from __future__ import annotations

import math

from partita.ground.errors import InputError
from partita.problems.serving.evaluate import evaluate
from partita.problems.serving.fleets import FleetBound
from partita.problems.serving.problem import ServingPlan, ServingProblem, UnitGroup


def why_no_fleet(problem: ServingProblem) -> str:
    """Why no fleet is feasible, and what would be enough."""
    bound = FleetBound(problem)
    fastest = bound.too_fast
    if fastest is not None:
        form = fastest.form
        return (
            f"no fleet keeps a TPOT of {problem.targets.tpot_s:.4g} s: between two tokens lie at least "
            f"{fastest.gap_s:.4g} s, of one request alone ({form.layout.label} on {form.kind}); a longer limit, faster "
            "devices or smaller formats would be needed"
        )
    least, longest = bound.least_time(), bound.longest_s
    if problem.goal == "cost" and 0 < least < math.inf and longest < least * bound.count:
        needed = str(math.ceil(problem.devices * least * bound.count / longest)) if longest > 0 else "more"
        return (
            f"no fleet keeps up: {bound.count} requests take all {problem.devices} devices at least "
            f"{least * bound.count:.4g} s, and {longest:.4g} s are allowed; at least "
            f"{needed} devices like them, a lower rate or a longer limit would be needed"
        )
    missed = "the targets"
    for item in (item for item in bound.items if item.role == "both"):
        try:
            groups = (UnitGroup(unit=item.number),)
            slow = None if problem.goal == "cost" else 1e-3 / max(least, 1e-30)
            found = evaluate(problem, ServingPlan(units=groups, rate_per_s=slow))
        except InputError:
            continue
        if found.violations:
            missed = found.violations[0]
            break
    return f"no fleet keeps the targets: of one unit, {missed}; a longer limit or faster devices would be needed"
