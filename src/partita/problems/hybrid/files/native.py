"""partita's own documents of the hybrid problem: problems, plans and results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from partita.documents.document import decode, read_bytes, read_tagged, sha256, tagged
from partita.documents.result_file import read_plan_bytes, result_envelope
from partita.problems.hybrid.evaluate import HybridEvaluation
from partita.problems.hybrid.plan import HybridPlan, HybridStage
from partita.problems.hybrid.problem import HybridProblem
from partita.run.result import Result

__all__ = ["hybrid_plan_document", "hybrid_result_document", "read_hybrid_plan", "read_hybrid_problem"]


def read_hybrid_problem(path: str | Path) -> HybridProblem:
    """Read a ``partita.hybrid`` file.

    Raises
    ------
    FormatError
        If it is malformed, has an unknown key, or another version.
    """
    return read_tagged(read_bytes(path), HybridProblem, HybridProblem.format, HybridProblem.version, path)


class _StageDocument(msgspec.Struct):
    operators: list[int]
    data_parallel: int
    tensor_parallel: int
    configurations: dict[int, str]
    machines: int | None = None
    machine_group: int | None = None


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
    return HybridPlan(
        stages=tuple(
            HybridStage(
                operators=tuple(stage.operators),
                data_parallel=stage.data_parallel,
                tensor_parallel=stage.tensor_parallel,
                configurations=stage.configurations,
                machines=stage.machines,
                machine_group=stage.machine_group,
            )
            for stage in document.stages
        )
    )


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


def hybrid_result_document(result: Result[HybridProblem, HybridPlan, HybridEvaluation], **extra: Any) -> dict[str, Any]:
    """A ``partita.result`` document; ``extra`` are further top-level keys."""
    problem = result.problem
    plan = None
    if result.plan is not None and result.evaluation is not None:
        plan = hybrid_plan_document(result.plan, result.evaluation)
    digest = sha256(msgspec.to_builtins(tagged(problem, problem.format, problem.version), str_keys=True))
    return result_envelope(result, digest, plan, **extra)
