"""The best cuts between whole layers: what runtimes that move modules, not operators, can run."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np

from partita.dags import row_of_blocks
from partita.problems.throughput.baselines.layers import item_layers
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome, Solver
from partita.run.monitor import Monitor


class LayerCuts(Solver):
    """Cut the row of layers by a dynamic program that knows work, transfers and memory.

    What it loses against a plan is what cutting at layers only costs. There is no plan if no cut fits.
    """

    name = "layer-cuts"
    summary = "the best cuts between whole layers, by all costs; ignores cuts inside layers"

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        from partita.problems.throughput.solvers.dpl import best_cut
        from partita.problems.throughput.solvers.plain_view import plain_view
        from partita.problems.throughput.solvers.remaining_capacity import lower_bounds
        from partita.problems.throughput.solvers.slicing_search import Slicer

        instance = build_instance(problem)
        before = [instance.pred[a:b].tolist() for a, b in pairwise(instance.pred_ptr.tolist())]
        # What comes before the layers and behind them are parts of their own, as where only layers may be cut.
        place, _ = row_of_blocks(item_layers(problem, instance), before)
        layer_of = np.array(place, dtype=np.int64)[instance.group]
        row = problem.replace(
            operators=tuple(
                msgspec.structs.replace(op, colocation=int(layer))
                for op, layer in zip(problem.operators, layer_of, strict=True)
            )
        )
        view = plain_view(row)
        low = lower_bounds(view)
        if np.isinf(low.both):
            return Outcome(plan=None)
        # The items are numbered topologically; edges never lead to an earlier layer, so this order is the row.
        found = best_cut(Slicer(view, low, np.zeros(1, dtype=np.int64)), np.arange(view.items, dtype=np.int32))
        return Outcome(plan=None if found is None else view.plan(found[1]))
