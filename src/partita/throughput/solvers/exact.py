"""Proven optimal acyclic splits: slicing for the plan, a decision search over ideals for the proof."""

from __future__ import annotations

import math

from partita.result import Monitor
from partita.throughput.problem import ThroughputProblem
from partita.throughput.solvers.driver import Driver, run_in_background
from partita.throughput.solvers.protocol import Options, Outcome
from partita.throughput.variants import variants_of

__all__ = ["Exact"]


#: Most combinations of used devices of all kinds but the largest: states and orders keep one entry for each.
MOST_CODES = 20_000


class Exact:
    """Exact contiguous solver."""

    name = "exact"
    summary = "acyclic splits with proof: slicing, then a search over ideals; ignores nothing of the problem"

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        """Every problem without variants, for acyclic splits."""
        return contiguous_only(self.name, options, problem)

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        """Search until proved, or until ``monitor.stopping``; the bound holds for the original problem."""
        return run_in_background(Driver(problem, options), monitor, Driver.prove)


def contiguous_only(name: str, options: Options, problem: ThroughputProblem | None = None) -> str | None:
    """What a solver of plain acyclic splits says about other requests."""
    if options.contiguity != "acyclic":
        return f"{name} searches acyclic splits; use the solver 'annealing' for free ones"
    variants = variants_of(problem) if problem is not None else ()
    if variants:
        return f"{name} knows the plain throughput problem only, and this one uses {', '.join(variants)}"
    if problem is not None:
        counts = sorted(min(kind.count, len(problem.operators)) + 1 for kind in problem.kinds)
        if math.prod(counts[:-1]) > MOST_CODES or math.prod(counts) > 100 * MOST_CODES:
            return f"{name} counts used devices by kind, and there are too many kinds with too many devices; merge some"
    return None
