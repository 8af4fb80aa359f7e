"""Proven optimal acyclic splits: slicing for the plan, a decision search over ideals for the proof."""

from __future__ import annotations

import math

from partita.engines.search.monitor import Monitor
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome
from partita.problems.throughput.solvers.combined import Combined, combined_refusal
from partita.problems.throughput.solvers.contiguous_run import ContiguousRun

#: Most combinations of used devices of all kinds but the largest: states and orders keep one entry for each.
MOST_CODES = 20_000


class Exact:
    """Exact contiguous solver."""

    name = "exact"
    summary = "acyclic splits with proof: slicing, then a search over ideals; ignores nothing of the problem"
    argument = "every set closed under predecessors was searched, or a bound of the hierarchy met the best split"

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        """Every problem, for acyclic splits; of groups at most two."""
        return contiguous_only(self.name, options, problem)

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        """Search until proved, or until ``monitor.stopping``; the bound holds for the original problem."""
        if combined_refusal(problem) is not None:
            return ContiguousRun(problem, options).search(monitor)
        run = Combined(problem, options, monitor)
        outcome = run.search(monitor)
        monitor.report(note=run.note)
        return outcome


def contiguous_only(name: str, options: Options, problem: ThroughputProblem | None = None) -> str | None:
    """What a solver of acyclic splits says about other requests."""
    if options.contiguity != "acyclic":
        return f"{name} searches acyclic splits; use the solver 'annealing' for free ones"
    if problem is None:
        return None
    if problem.row is not None:
        return f"{name} does not know stages that are runs of a row of units; use the solver 'row'"
    if len(problem.groups) > 2:
        return f"{name} splits over two groups of devices at most, and there are {len(problem.groups)}; merge some"
    most = problem.max_replicas * len(problem.operators)
    held = [group.counts[k] for group in problem.groups for k in range(len(problem.kinds))]
    counts = sorted(min(count, most) + 1 for count in held or [kind.count for kind in problem.kinds])
    if math.prod(counts[:-1]) > MOST_CODES or math.prod(counts) > 100 * MOST_CODES:
        return f"{name} counts used devices by kind, and there are too many kinds with too many devices; merge some"
    return None
