"""What all bounds by programs share."""

from __future__ import annotations

import math

from partita.mip.solve import available, missing
from partita.problems.throughput.bounds.knowledge import Knowledge
from partita.problems.throughput.bounds.programs.minmax_program import below, granularity, pool_bound, round_up
from partita.problems.throughput.bounds.programs.order_tables import MOST_ITEMS
from partita.problems.throughput.bounds.protocol import HierarchyBound
from partita.problems.throughput.bounds.simple import simple_bound
from partita.problems.throughput.problem import ThroughputProblem

__all__ = ["ProgramMember", "cutoff_of", "settled"]


class ProgramMember(HierarchyBound):
    """A bound by programs: needs HiGHS, and problems small enough for it."""

    def supports(self, problem: ThroughputProblem) -> str | None:
        """Identical devices, a backend, and not too many operators."""
        reason = super().supports(problem) or missing("highs")
        if reason is None and len(problem.operators) > MOST_ITEMS:
            return f"it is for at most {MOST_ITEMS} operators, and there are {len(problem.operators)}; use `charge`"
        return reason


def settled(knowledge: Knowledge, name: str) -> bool:
    """Raise the bound to the simple one; whether that leaves nothing for a program to do."""
    uniform = knowledge.uniform
    knowledge.prove(round_up(simple_bound(uniform), granularity(uniform)), name)
    return (
        not available("highs")
        or pool_bound(uniform) <= 0
        or uniform.items > MOST_ITEMS
        or uniform.devices < 2
        or knowledge.done
    )


def cutoff_of(knowledge: Knowledge, grain: float) -> float:
    """Just below the best value; what no load exceeds if there is none."""
    return below(knowledge.value, grain) if math.isfinite(knowledge.value) else pool_bound(knowledge.uniform)
