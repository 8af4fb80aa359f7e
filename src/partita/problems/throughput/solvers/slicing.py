"""Good acyclic splits in a moment, without a proof."""

from __future__ import annotations

from partita.engines.search.monitor import Monitor
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome
from partita.problems.throughput.solvers.contiguous_run import ContiguousRun
from partita.problems.throughput.solvers.exact import contiguous_only


class Slicing:
    """Slice random topological orders, then orders that respect the stages found."""

    name = "slicing"
    summary = "acyclic splits fast: the best cuts of many topological orders; its bound is only the division of work"
    argument = "a device holds the largest operator, and one device does at least the mean of the work"

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        """Every problem, for acyclic splits; of groups at most two."""
        return contiguous_only(self.name, options, problem)

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        """Run until orders stop giving better splits, or until ``monitor.stopping``."""
        return ContiguousRun(problem, options).search(monitor, proof=False)
