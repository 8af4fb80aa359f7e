"""Why a makespan problem has no schedule, and what would be enough."""

from __future__ import annotations

from partita.problems.makespan.bounds.simple import impossible
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.problem import MakespanProblem


def explain_infeasible(problem: MakespanProblem) -> str:
    """Say what a problem without a schedule lacks."""
    said = impossible(build_instance(problem))
    if said is not None:
        return said
    sizes = [sum(problem.operators[v].memory for v in members) for members in problem.classes()]
    return (
        f"no way to divide the operators keeps the memory limits: they hold {sum(sizes):g} {problem.memory_unit}, the "
        f"largest that stay together {max(sizes):g}; more memory, or smaller colocation classes, would be needed"
    )
