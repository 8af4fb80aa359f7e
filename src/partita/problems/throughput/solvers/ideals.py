"""The search over ideals as a bound of its own: exact where ideals are few, whatever the memory and the variants."""

from __future__ import annotations

from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options
from partita.problems.throughput.solvers.contiguous_run import ContiguousRun
from partita.problems.throughput.solvers.exact import contiguous_only


class IdealsBound:
    """Targets refuted by the decision search over ideals alone; with time enough, the optimum.

    Source: the decision form of the dynamic program over ideals of Tarnawski et al. (NeurIPS 2020, §5.1.1).
    """

    name = "ideals"
    summary = "search over ideals (sets closed under predecessors), with memory and variants; exact where they are few"
    argument = "the sets closed under predecessors were searched, the cheapest first, as far as the bound says"
    scope = "acyclic"

    def supports(self, problem: ThroughputProblem) -> str | None:
        """What the exact solver takes on."""
        return contiguous_only(self.name, Options(), problem)

    def bound(self, problem: ThroughputProblem, monitor: Monitor) -> Bound:
        """The largest target refuted; infinite if the problem is proven infeasible."""
        outcome = ContiguousRun(problem, Options()).search(monitor)
        value = float("inf") if outcome.infeasible else outcome.bound or 0.0
        return Bound(value, self.name, self.scope, monitor.elapsed_s)
