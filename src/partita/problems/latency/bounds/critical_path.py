"""The longest path with the best time of every operator, and the transfers that nobody gets around.

Source: own. Along a path, an operator takes at least its time on the CPU or on an accelerator. Where the path goes from
the CPU into a piece, or out of one to the CPU, the piece pays for the tensor. By induction along a topological order,
the smaller of both choices of every predecessor is a lower bound on when an operator of either choice is done; staying
on accelerators is taken to be free. Operators that no accelerator runs, or that fit into none, have one choice.
"""

from __future__ import annotations

import math

from partita.checker.certificate import Certificate, as_in_file, first_proving
from partita.checker.latency.ends import best_ends
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.problems.kind import BoundMethod
from partita.problems.latency.bounds.chain import lowered
from partita.problems.latency.problem import LatencyProblem
from partita.problems.latency.view import View

#: Operators and edges up to which a certificate is made.
_MOST = 20_000


class CriticalPath(BoundMethod[LatencyProblem]):
    """See the module."""

    name = "critical-path"
    summary = "longest path with best times, and transfers between accelerators and what cannot be there"
    argument = (
        "along a path every operator takes its best time, and every change between CPU and accelerator its transfer"
    )

    def bound(self, problem: LatencyProblem, monitor: Monitor) -> Bound:
        view = View(problem)
        return Bound(lowered(view, critical_path(view)), self.name, self.scope, monitor.elapsed_s)


def critical_path(view: View) -> float:
    """The bound."""
    a = view.arrays
    on_cpu, on_piece = [0.0] * view.count, [0.0] * view.count
    latest = 0.0
    for v in range(view.count):
        ready = entered = 0.0
        for u in view.before[v]:
            moved = float(a.comm[u])
            ready = max(ready, min(on_cpu[u], on_piece[u] + moved))
            entered = max(entered, min(on_cpu[u] + moved, on_piece[u]))
        on_cpu[v] = ready + float(a.cpu[v])
        able = view.slots and not view.barred[a.group.of[v]]
        on_piece[v] = entered + float(a.acc[v]) if able else math.inf
        latest = max(latest, min(on_cpu[v], on_piece[v]))
    return latest


def certify(problem: LatencyProblem, bound: Bound) -> Certificate | None:
    """A certificate that shows a bound by the earliest ends of the operators; None where these do not."""
    if len(problem.operators) + len(problem.edges) > _MOST:
        return None
    return first_proving(as_in_file(problem), bound.value, [best_ends])
