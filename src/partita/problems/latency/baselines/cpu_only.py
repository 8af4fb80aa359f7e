"""Nothing on an accelerator."""

from __future__ import annotations

from partita.engines.search.monitor import Monitor
from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.problem import LatencyProblem
from partita.problems.latency.protocol import Options, Outcome, Solver


class CpuOnly(Solver):
    """The critical path at CPU times: there are cores enough, and no transfers."""

    name = "CPU only"
    summary = "every operator on the CPU; uses no accelerator"

    def solve(self, problem: LatencyProblem, options: Options, monitor: Monitor) -> Outcome:
        return Outcome(LatencyPlan())
