"""Plans of hybrid problems in result files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from partita.documents.document import decode
from partita.documents.result_file import read_plan_bytes
from partita.problems.facets.files import Files
from partita.problems.hybrid.evaluate import HybridEvaluation
from partita.problems.hybrid.plan import HybridPlan, HybridStage
from partita.problems.hybrid.problem import HybridProblem


class _StageDocument(HybridStage, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A stage beside what it is worth."""


class _PlanDocument(msgspec.Struct):
    stages: list[_StageDocument]


def read_hybrid_plan(path: str | Path) -> HybridPlan:
    """The plan of a result file with a hybrid plan.

    Raises
    ------
    FormatError
        If the file is not a result file with a hybrid plan.
    """
    document = decode(read_plan_bytes(path), _PlanDocument, f"{path}: plan")
    return HybridPlan(stages=tuple(HybridStage(**msgspec.structs.asdict(stage)) for stage in document.stages))


def hybrid_plan_document(plan: HybridPlan, evaluation: HybridEvaluation) -> dict[str, Any]:
    """A plan for a result file, first stage first; with a hierarchy, also the machine groups."""
    groups = [
        {
            "machines": worth.machines,
            "time_per_sample": worth.time_per_sample,
            "transfer": worth.transfer,
            "weight_sync": worth.weight_sync,
        }
        for worth in evaluation.machine_groups
    ]
    return {
        "devices": plan.devices,
        "microbatches": plan.microbatches,
        **({"machines": plan.machines, "machine_groups": groups} if groups else {}),
        "stages": [
            {
                "operators": list(stage.operators),
                "data_parallel": stage.data_parallel,
                "tensor_parallel": stage.tensor_parallel,
                **({"machines": stage.machines, "machine_group": stage.machine_group} if groups else {}),
                "configurations": {str(identity): name for identity, name in stage.configurations.items()},
                "time_per_sample": worth.time_per_sample,
                "memory_bytes": worth.memory_bytes,
                "compute": worth.compute,
                "transfer": worth.transfer,
                "weight_sync": worth.weight_sync,
                "in_flight": worth.in_flight,
            }
            for stage, worth in zip(plan.stages, evaluation.stages, strict=True)
        ],
    }


class PlanFiles(Files[HybridProblem, HybridPlan, HybridEvaluation]):
    """Result files."""

    def plan_document(self, problem: HybridProblem, plan: HybridPlan, evaluation: HybridEvaluation) -> dict[str, Any]:
        """One entry per stage, first stage first."""
        return hybrid_plan_document(plan, evaluation)

    def read_plan(self, path: str | Path, problem: HybridProblem) -> HybridPlan:
        """Of a result file."""
        return read_hybrid_plan(path)
