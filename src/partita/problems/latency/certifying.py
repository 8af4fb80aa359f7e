"""Certificates of bounds on latencies: the earliest ends of the operators."""

from __future__ import annotations

from partita.checker.certificate import Certificate, as_in_file, first_proving
from partita.checker.latency.ends import best_ends
from partita.engines.search.result import Bound
from partita.problems.latency.problem import LatencyProblem

#: Operators and edges up to which one is made.
_MOST = 20_000


def certify(problem: LatencyProblem, bound: Bound) -> Certificate | None:
    """A certificate that shows a bound; None where the longest path alone does not."""
    if len(problem.operators) + len(problem.edges) > _MOST:
        return None
    return first_proving(as_in_file(problem), bound.value, [best_ends])
