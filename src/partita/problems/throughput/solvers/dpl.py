"""The linearised dynamic program: the best cuts of a few fixed topological orders.

Source: Tarnawski et al., NeurIPS 2020, §5.1.2 (DPL): along a Hamiltonian path of the graph the ideals are its prefixes,
so the dynamic program is fast. They take one depth-first order; here a handful of fixed orders is cut, each exactly.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from partita.kernels.throughput.arrays import Arrays, Ints
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.solvers.exact import contiguous_only
from partita.problems.throughput.solvers.incumbent import Slicer
from partita.problems.throughput.solvers.prepared import Split, prepare
from partita.problems.throughput.solvers.protocol import Options, Outcome
from partita.problems.throughput.solvers.remaining_capacity import fractional_bound
from partita.problems.throughput.variants import refuse_variants
from partita.run.monitor import Monitor

__all__ = ["Dpl", "best_cut", "fixed_orders"]

#: Relative width to which the bisection narrows a bottleneck before the last steps make it exact.
_NARROW = 1e-7


class Dpl:
    """Dynamic program over prefixes of fixed orders."""

    name = "dpl"
    summary = "exact cuts of five fixed topological orders (DPL); ignores every split that follows none of them"

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        """Every problem without variants, for acyclic splits."""
        return contiguous_only(self.name, options) or refuse_variants(problem)

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        """Cut order after order; the bound is the division of work, and the seed plays no part."""
        prepared = prepare(problem)
        low = fractional_bound(prepared.arrays)
        if low == float("inf"):
            return Outcome(plan=None, infeasible=True)
        slicer = Slicer(prepared, np.zeros(1, dtype=np.int64))
        value, split = float("inf"), None
        for order in fixed_orders(prepared.arrays):
            if monitor.stopping or value <= low:
                break
            found = best_cut(slicer, order, low, value)
            if found is not None:
                value, split = found
                monitor.report(objective=value, bound=min(low, value))
        plan = None if split is None else prepared.plan(split)
        return Outcome(plan=plan, bound=min(low, value))


def best_cut(slicer: Slicer, order: Ints, low: float, below: float = float("inf")) -> tuple[float, Split] | None:
    """The best cut of an order with a bottleneck under ``below``, exact up to rounding; None if there is none."""
    # Searching up from a lower bound needs one above zero; without it, start at the largest load there can be.
    found = slicer.best(order, low, below if low > 0 else min(below, 2 * slicer.most), _NARROW)
    while found is not None and found[0] > low:
        split = slicer.decide(order, found[0] * (1 - 1e-9))
        value = float("inf") if split is None else float(slicer.prepared.loads(split).max())
        if split is None or value >= found[0]:
            break
        found = value, split
    return found


def fixed_orders(arrays: Arrays) -> list[Ints]:
    """File order, depth first from either side, breadth first, and last in first out; equal ones once."""
    n = arrays.work.shape[1]
    succ = [arrays.succ[arrays.succ_ptr[v] : arrays.succ_ptr[v + 1]].tolist() for v in range(n)]
    orders = [
        list(range(n)),
        _depth_first(succ, forward=True),
        _depth_first(succ, forward=False),
        _kahn(succ, last=False),
        _kahn(succ, last=True),
    ]
    distinct = dict.fromkeys(tuple(order) for order in orders)
    return [np.array(order, dtype=np.int32) for order in distinct]


def _depth_first(succ: list[list[int]], *, forward: bool) -> list[int]:
    """Reverse postorder; successors (and sources) in the file's order or against it."""
    n = len(succ)
    seen = [False] * n
    finished: list[int] = []
    # Reverse postorder puts what is visited last first, so visiting against the order keeps it.
    for root in range(n - 1, -1, -1) if forward else range(n):
        if seen[root]:
            continue
        seen[root] = True
        stack = [(root, iter(succ[root][::-1] if forward else succ[root]))]
        while stack:
            v, rest = stack[-1]
            child = next((w for w in rest if not seen[w]), None)
            if child is None:
                finished.append(v)
                stack.pop()
            else:
                seen[child] = True
                stack.append((child, iter(succ[child][::-1] if forward else succ[child])))
    return finished[::-1]


def _kahn(succ: list[list[int]], *, last: bool) -> list[int]:
    """Ready operators first in first out, or last in first out."""
    missing = [0] * len(succ)
    for row in succ:
        for w in row:
            missing[w] += 1
    ready = deque(v for v, count in enumerate(missing) if count == 0)
    order = []
    while ready:
        v = ready.pop() if last else ready.popleft()
        order.append(v)
        for w in succ[v]:
            missing[w] -= 1
            if missing[w] == 0:
                ready.append(w)
    return order
