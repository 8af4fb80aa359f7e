"""A latency plan for people, and what limits it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from partita.ground.units import format_bytes, format_time
from partita.problems.facets.report import Reporting
from partita.problems.latency.evaluate import LatencyEvaluation
from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.problem import LatencyProblem
from partita.problems.latency.report.tables import critical_table, piece_table

if TYPE_CHECKING:
    from rich.console import RenderableType


class LatencyReport(Reporting[LatencyProblem, LatencyPlan, LatencyEvaluation]):
    """Pieces with their times, the critical path, and what it consists of."""

    doing = "placing"

    def tables(
        self, problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation
    ) -> Sequence[RenderableType]:
        return [piece_table(problem, plan, evaluation), critical_table(problem, plan, evaluation)]

    def sentences(self, problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation) -> Sequence[str]:
        """What the critical path consists of, and the fullest memory."""
        parts = critical_parts(evaluation)
        total = sum(parts.values())
        found = []
        if total > 0:
            shares = ", ".join(f"{value / total:.1%} {name}" for name, value in parts.items())
            found.append(f"the critical path is {shares}")
        if problem.memory_bytes and evaluation.accelerators:
            fullest = max(one.memory_bytes for one in evaluation.accelerators)
            share = fullest / problem.memory_bytes
            found.append(f"the fullest accelerator holds {format_bytes(fullest)}, {share:.0%} of its memory")
        return found

    def step(self, problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation) -> float | None:
        """One sample is the batch."""
        return float(evaluation.objective)

    def figures(self, problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation) -> Mapping[str, str]:
        parts = critical_parts(evaluation)
        pieces = sum(len(one.pieces) for one in evaluation.accelerators)
        return {"pieces": str(pieces), "transfers": format_time(parts["transfers"], problem.unit)}


def critical_parts(evaluation: LatencyEvaluation) -> dict[str, float]:
    """Times on the critical path: transfers, work on accelerators, work on the CPU."""
    parts = {"transfers": 0.0, "work on accelerators": 0.0, "work on the CPU": 0.0}
    for step in evaluation.critical_path:
        if step.device is None or step.piece is None:
            parts["work on the CPU"] += step.end - step.start
        else:
            piece = evaluation.accelerators[step.device].pieces[step.piece]
            parts["transfers"] += piece.transfer_in + piece.transfer_out
            parts["work on accelerators"] += piece.compute
    return parts
