"""Stages in terms of the model's modules."""

from __future__ import annotations

from partita.documents.tables.modules import PartModules, part_modules
from partita.nouns.pipeline import Plan
from partita.problems.throughput.problem import ThroughputProblem


def stage_modules(problem: ThroughputProblem, plan: Plan) -> list[PartModules]:
    """Modules of every stage; empty where the problem has no module names."""
    stage_of = {identity: number for number, stage in enumerate(plan.stages) for identity in stage.operators}
    forward = ((stage_of[op.id], op.module) for op in problem.operators if not op.backward)
    return part_modules(forward, len(plan.stages))
