"""Deployments in result files."""

from __future__ import annotations

from typing import Any

import msgspec

from partita.problems.facets.files import Files
from partita.problems.serving.evaluate import ServingEvaluation
from partita.problems.serving.problem import ServingPlan, ServingProblem


class ServingPlanFiles(Files[ServingProblem, ServingPlan, ServingEvaluation]):
    """The units with their degrees, which are not read again."""

    def plan_document(
        self, problem: ServingProblem, plan: ServingPlan, evaluation: ServingEvaluation
    ) -> dict[str, Any]:
        """``units``, and by group the kind of device and the layout."""
        document: dict[str, Any] = msgspec.to_builtins(plan)
        document["layouts"] = [unit_document(problem, group.unit) for group in plan.units]
        return document


def unit_document(problem: ServingProblem, number: int) -> dict[str, Any]:
    """A form as plain values: its kind of device, degrees and sizes."""
    form = problem.form(number)
    degrees = msgspec.structs.asdict(form.layout)
    return {
        "kind": form.kind,
        **degrees,
        "expert": degrees["expert"] or 1,
        "expert_tensor": degrees["expert_tensor"] or 1,
        "requests": form.rules.requests,
        "tokens": form.rules.tokens,
    }
