"""The solvers and the bound by search over downsets, and by slicing alone: acyclic splits, whatever the variants."""

from __future__ import annotations

import math

from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Outcome, ThroughputOptions
from partita.problems.throughput.solvers.combined import CombinedRun, combined_refusal
from partita.problems.throughput.solvers.contiguous_run import ContiguousRun
from partita.problems.throughput.solvers.narrowing import solve_narrowed

#: Most combinations of used devices of all kinds but the largest: states and orders keep one entry for each.
MOST_CODES = 20_000


class Exact:
    """Exact contiguous solver."""

    name = "exact"
    summary = "acyclic splits with proof: slicing, then a search over downsets; ignores nothing of the problem"
    argument = "every set closed under predecessors was searched, or a bound of the hierarchy met the best split"

    def supports(self, problem: ThroughputProblem, options: ThroughputOptions) -> str | None:
        """Every problem, for acyclic splits; of groups at most two."""
        return contiguous_only(self.name, options, problem)

    def solve(self, problem: ThroughputProblem, options: ThroughputOptions, monitor: Monitor) -> Outcome:
        """Search until proved, or until ``monitor.stopping``; the bound holds for the original problem."""
        if combined_refusal(problem) is not None:
            return ContiguousRun(problem, options).search(monitor)
        return solve_narrowed(problem, options, monitor, _combined)


def _combined(problem: ThroughputProblem, options: ThroughputOptions, monitor: Monitor) -> Outcome:
    run = CombinedRun(problem, options, monitor)
    outcome = run.search(monitor)
    found_by = run.incumbent.found_by
    monitor.report(
        note=f"bound proven by {run.incumbent.proven_by}" + (f", plan found by {found_by}" if found_by else "")
    )
    return outcome


def contiguous_only(name: str, options: ThroughputOptions, problem: ThroughputProblem | None = None) -> str | None:
    """What a solver of acyclic splits says about other requests."""
    if options.contiguity != "acyclic":
        return f"{name} searches acyclic splits; use the solver 'annealing' for free ones"
    if problem is None:
        return None
    if problem.row is not None:
        return f"{name} does not know stages that are runs of a chain of units; use the solver 'row'"
    if len(problem.groups) > 2:
        return f"{name} splits over two groups of devices at most, and there are {len(problem.groups)}; merge some"
    most = problem.max_replicas * len(problem.operators)
    held = [group.counts[k] for group in problem.groups for k in range(len(problem.kinds))]
    counts = sorted(min(count, most) + 1 for count in held or [kind.count for kind in problem.kinds])
    if math.prod(counts[:-1]) > MOST_CODES or math.prod(counts) > 100 * MOST_CODES:
        return f"{name} counts used devices by kind, and there are too many kinds with too many devices; merge some"
    return None


class Slicing(Exact):
    """Slice random topological orders, then orders that respect the stages found."""

    name = "slicing"
    summary = "acyclic splits fast: the best cuts of many topological orders; its bound is only the division of work"
    argument = "a device holds the largest operator, and one device does at least the mean of the work"

    def solve(self, problem: ThroughputProblem, options: ThroughputOptions, monitor: Monitor) -> Outcome:
        """Run until orders stop giving better splits, or until ``monitor.stopping``."""
        return ContiguousRun(problem, options).search(monitor, proof=False)


class DownsetsBound:
    """Targets refuted by the decision search over downsets alone; with time enough, the optimum.

    Source: the decision form of the dynamic program over downsets of Tarnawski et al. (NeurIPS 2020, §5.1.1).
    """

    name = "ideals"
    summary = (
        "search over downsets (sets closed under predecessors), with memory and variants; exact where they are few"
    )
    argument = "the sets closed under predecessors were searched, the cheapest first, as far as the bound says"
    scope = "acyclic"

    def supports(self, problem: ThroughputProblem) -> str | None:
        """What the exact solver takes on."""
        return contiguous_only(self.name, ThroughputOptions(), problem)

    def bound(self, problem: ThroughputProblem, monitor: Monitor) -> Bound:
        """The largest target refuted; infinite if the problem is proven infeasible."""
        outcome = ContiguousRun(problem, ThroughputOptions()).search(monitor)
        value = float("inf") if outcome.infeasible else outcome.bound or 0.0
        return Bound(value, self.name, self.scope, monitor.elapsed_s)
