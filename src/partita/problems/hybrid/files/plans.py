"""Plans of hybrid problems in result files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from partita.problems.facets.files import Files
from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.worth import HybridEvaluation, HybridStageEvaluation, MachineGroupEvaluation


def _worth(part: HybridStageEvaluation | MachineGroupEvaluation) -> dict[str, Any]:
    return asdict(part) | {"time_per_sample": part.time_per_sample}


class PlanFiles(Files[HybridProblem, HybridPlan, HybridEvaluation]):
    """Every stage beside what it is worth; with a hierarchy, also the machine groups."""

    def plan_document(self, problem: HybridProblem, plan: HybridPlan, evaluation: HybridEvaluation) -> dict[str, Any]:
        stages = super().plan_document(problem, plan, evaluation)["stages"]
        groups = [_worth(group) for group in evaluation.machine_groups]
        return {
            "devices": plan.devices,
            "microbatches": plan.microbatches,
            **({"schedule": plan.schedule, "zero": plan.zero} if problem.training is not None else {}),
            **({"machines": plan.machines, "machine_groups": groups} if groups else {}),
            "stages": [stage | _worth(worth) for stage, worth in zip(stages, evaluation.stages, strict=True)],
        }
