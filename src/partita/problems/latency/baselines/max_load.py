"""A plan made for throughput, judged by its latency: contiguous pieces along an order, the most loaded one least."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.graph_arrays import csr
from partita.engines.search.monitor import Monitor
from partita.problems.latency.groups import contracted
from partita.problems.latency.plan import on_accelerators
from partita.problems.latency.problem import LatencyProblem
from partita.problems.latency.protocol import Options, Outcome, Solver
from partita.problems.latency.view import View


class MaxLoad(Solver):
    """Source: NeurIPS 2020 (device placement), Appendix F, the second baseline.

    The paper takes the best split over all ideals; this takes the best along one topological order (the paper's
    linearisation, §5.1.2). Several splits reach the same largest load, with latencies up to 12 % apart.
    """

    name = "max-load split"
    summary = "pieces along one order with the least largest load, as for throughput; ignores what waits for what"

    def solve(self, problem: LatencyProblem, options: Options, monitor: Monitor) -> Outcome:
        from partita.engines.kernels.latency.slicing import slice_order

        view, rows = View(problem), contracted(problem)
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
