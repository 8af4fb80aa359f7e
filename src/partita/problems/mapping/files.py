"""Mappings in result files."""

from __future__ import annotations

from typing import Any

import msgspec

from partita.problems.facets.files import Files
from partita.problems.mapping.evaluate import MappingEvaluation
from partita.problems.mapping.problem import MappingProblem, Placement


class MappingPlanFiles(Files[MappingProblem, Placement, MappingEvaluation]):
    """The devices of all replicas, with their names and loads, which are not read again."""

    def plan_document(self, problem: MappingProblem, plan: Placement, evaluation: MappingEvaluation) -> dict[str, Any]:
        """``placement``, and by stage and replica the names of the devices and the parts of the loads."""
        document: dict[str, Any] = msgspec.to_builtins(plan)
        document["devices"] = [[problem.device_name(device) for device in row] for row in plan.placement]
        document["loads"] = msgspec.to_builtins(evaluation.loads)
        return document
