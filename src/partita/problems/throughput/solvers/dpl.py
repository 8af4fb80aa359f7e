"""The linearised dynamic program: the best cuts of a few fixed topological orders.

Source: Tarnawski et al., NeurIPS 2020, §5.1.2 (DPL): along a Hamiltonian path of the graph the downsets are its
prefixes, so the dynamic program is fast. They take one depth-first order; here a handful of fixed orders is cut, each
exactly.
"""

from __future__ import annotations

from collections import deque
from graphlib import TopologicalSorter

import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.engines.kernels.graph_arrays import lists
from partita.engines.kernels.throughput.arrays import Arrays
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.outcome import outcome_of
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Outcome, ThroughputOptions
from partita.problems.throughput.solvers.exact import contiguous_only
from partita.problems.throughput.solvers.plain import plain_view
from partita.problems.throughput.solvers.remaining_capacity import lower_bounds
from partita.problems.throughput.solvers.slicing_search import OrderSlicer
from partita.problems.throughput.solvers.view import Split
from partita.problems.throughput.variants import refuse_variants


class Dpl:
    """Dynamic program over prefixes of fixed orders."""

    name = "dpl"
    summary = "exact cuts of five fixed topological orders (DPL); ignores every split that follows none of them"
    argument = "a device holds the largest operator, and one device does at least the mean of the work"

    def supports(self, problem: ThroughputProblem, options: ThroughputOptions) -> str | None:
        """Every problem without variants, for acyclic splits."""
        return contiguous_only(self.name, options) or refuse_variants(problem)

    def solve(self, problem: ThroughputProblem, options: ThroughputOptions, monitor: Monitor) -> Outcome:
        """Cut order after order; the bound is the division of work, and the seed plays no part."""
        view = plain_view(problem)
        low = lower_bounds(view)
        best: Incumbent[Split] = Incumbent()
        best.on_better = lambda value, _, by: monitor.report(objective=value, bound=best.bound)
        best.prove(low.both, "division of work")
        slicer = OrderSlicer(view, low, best.stop)
        for order in () if best.infeasible else fixed_orders(view.arrays):
            if monitor.stopping or best.value <= low.both:
                break
            found = slicer.exact(order, best.value)
            if found is not None:
                best.offer(*found, self.name)
        return outcome_of(best, view.plan)


def fixed_orders(arrays: Arrays) -> list[Ints]:
    """File order, depth first from either side, breadth first, and last in first out; equal ones once."""
    n = arrays.work.shape[1]
    succ = lists(arrays.graph.succ_ptr, arrays.graph.succ)
    pred = lists(arrays.graph.pred_ptr, arrays.graph.pred)
    orders = [
        list(range(n)),
        _depth_first(succ, forward=True),
        _depth_first(succ, forward=False),
        _kahn(pred, last=False),
        _kahn(pred, last=True),
    ]
    return [np.array(order, dtype=np.int32) for order in dict.fromkeys(map(tuple, orders))]


def _depth_first(succ: list[list[int]], *, forward: bool) -> list[int]:
    """Reverse postorder; successors (and sources) in the file's order or against it."""
    # Reverse postorder puts what is visited last first, so visiting against the order keeps it.
    step = 1 if forward else -1
    seen, finished, stack = set[int](), [], list(range(len(succ)))[::step]
    while stack:
        v = stack.pop()
        if v < 0:
            finished.append(~v)
        elif v not in seen:
            seen.add(v)
            stack += [~v, *succ[v][::step]]
    return finished[::-1]


def _kahn(pred: list[list[int]], *, last: bool) -> list[int]:
    """Ready operators first in first out, or last in first out."""
    sorter: TopologicalSorter[int] = TopologicalSorter(dict(enumerate(pred)))
    sorter.prepare()
    ready = deque(sorter.get_ready())
    order = []
    while ready:
        v = ready.pop() if last else ready.popleft()
        order.append(v)
        sorter.done(v)
        ready.extend(sorter.get_ready())
    return order
