"""Everything on one accelerator, where it fits."""

from __future__ import annotations

from partita.engines.search.monitor import Monitor
from partita.problems.latency.plan import LatencyPlan, on_accelerators
from partita.problems.latency.problem import LatencyProblem
from partita.problems.latency.protocol import Options, Outcome, Solver


class SingleAccelerator(Solver):
    """All operators that it can run on one accelerator, in one piece for each pass unless the CPU comes between."""

    name = "single accelerator"
    summary = "everything on one accelerator, whatever its memory; ignores the others"

    def solve(self, problem: LatencyProblem, options: Options, monitor: Monitor) -> Outcome:
        if problem.accelerators == 0:
            return Outcome(LatencyPlan())
        refused = {
            number
            for op, number in zip(problem.operators, problem.classes(), strict=True)
            if op.accelerator_time is None
        }
        held = [op.id for op, number in zip(problem.operators, problem.classes(), strict=True) if number not in refused]
        return Outcome(on_accelerators([held]))
