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
        document["layouts"] = [problem.form(group.unit).document() for group in plan.units]
        return document
