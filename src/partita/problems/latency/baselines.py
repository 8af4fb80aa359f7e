"""What people do by hand, or with a planner for something else."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.graph_arrays import csr
from partita.engines.search.monitor import Monitor
from partita.ground.dags import topological_order
from partita.ground.rounding import up_to
from partita.problems.kind import SearchOptions
from partita.problems.latency.options import Outcome, Solver
from partita.problems.latency.plan import LatencyPlan, on_accelerators
from partita.problems.latency.problem import LatencyProblem
from partita.problems.latency.view import View


class CpuOnly(Solver):
    """The critical path at CPU times: there are cores enough, and no transfers."""

    name = "CPU only"
    summary = "every operator on the CPU; uses no accelerator"

    def solve(self, problem: LatencyProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        return Outcome(LatencyPlan())


class SingleAccelerator(Solver):
    """All operators that it can run on one accelerator, in one piece for each pass unless the CPU comes between."""

    name = "single accelerator"
    summary = "everything on one accelerator, whatever its memory; ignores the others"

    def solve(self, problem: LatencyProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        if problem.accelerators == 0:
            return Outcome(LatencyPlan())
        classed = list(zip(problem.operators, problem.classes(), strict=True))
        refused = {number for op, number in classed if op.accelerator_time is None}
        return Outcome(on_accelerators([[op.id for op, number in classed if number not in refused]]))


class GreedyFill(Solver):
    """Source: NeurIPS 2020 (device placement), Appendix F, the first baseline; its result depends on the order."""

    name = "greedy fill"
    summary = "fills one accelerator after the other along a topological order; ignores times and transfers"

    def solve(self, problem: LatencyProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        limit = up_to(problem.limit_bytes)
        sets: list[list[int]] = []
        held = 0.0
        for row in _contracted(View(problem)):
            ops = [problem.operators[v] for v in row]
            size = sum(op.memory_bytes for op in ops)
            if any(op.accelerator_time is None for op in ops):
                # The next operators may depend on this one: they are not in one piece with those before.
                if sets and sets[-1]:
                    sets.append([])
                    held = 0.0
                continue
            if size > limit:
                continue
            if not sets or held + size > limit:
                sets.append([])
                held = 0.0
            sets[-1] += [op.id for op in ops]
            held += size
        return Outcome(on_accelerators(sets[: problem.accelerators]))


class MaxLoad(Solver):
    """Source: NeurIPS 2020 (device placement), Appendix F, the second baseline.

    The paper takes the best split over all ideals; this takes the best along one topological order (the paper's
    linearisation, §5.1.2). Several splits reach the same largest load, with latencies up to 12 % apart.
    """

    name = "max-load split"
    summary = "pieces along one order with the least largest load, as for throughput; ignores what waits for what"

    def solve(self, problem: LatencyProblem, options: SearchOptions, monitor: Monitor) -> Outcome:
        from partita.engines.kernels.latency.slicing import slice_order

        view = View(problem)
        rows = _contracted(view)
        if monitor.stopping:
            return Outcome(None, reason="it was stopped before it had a plan")
        ptr, order = csr([[view.number[v] for v in row] for row in rows])
        # One CPU takes what no accelerator runs, whatever its load.
        alone = [any(problem.operators[v].accelerator_time is None for v in row) for row in rows]
        cpu = np.where(alone, 0.0, np.inf)
        piece = slice_order(view.arrays, order, ptr, cpu, problem.accelerators, True).tolist()
        if any(number < 0 and not outside for number, outside in zip(piece, alone, strict=True)):
            return Outcome(None, reason="no split along its order keeps every limit")
        sets: list[list[int]] = [[] for _ in range(max(piece, default=-1) + 1)]
        for row, number in zip(rows, piece, strict=True):
            if number >= 0:
                sets[number] += [problem.operators[v].id for v in row]
        return Outcome(on_accelerators(sets))


#: The visible list.
DEFAULT_BASELINES: tuple[Solver, ...] = (CpuOnly(), SingleAccelerator(), GreedyFill(), MaxLoad())


def _contracted(view: View) -> list[list[int]]:
    """Places of operators that a contiguous split keeps together, by group, in topological order of the groups."""
    merged, edges = view.merged()
    groups = [sorted(view.place[v] for number in one for v in view.classes[number]) for one in merged]
    # Groups are preferred by the first of their operators in the problem's own order.
    return [groups[i] for i in topological_order(len(groups), sorted(edges), [min(row) for row in groups])]
