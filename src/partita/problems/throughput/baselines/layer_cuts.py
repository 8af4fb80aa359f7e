"""The best cuts between whole layers: what runtimes that move modules, not operators, can run."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.graph_arrays import lists
from partita.engines.search.monitor import Monitor
from partita.ground.dags import row_of_blocks
from partita.problems.throughput.baselines.base import best_cuts
from partita.problems.throughput.baselines.layers import item_layers
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome, Solver


class LayerCuts(Solver):
    """Cut the row of layers by a dynamic program that knows work, transfers and memory.

    What it loses against a plan is what cutting at layers only costs. There is no plan if no cut fits.
    """

    name = "layer-cuts"
    summary = "the best cuts between whole layers, by all costs; ignores cuts inside layers"

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        instance = build_instance(problem)
        before = lists(instance.graph.pred_ptr, instance.graph.pred)
        # What comes before the layers and behind them are parts of their own, as where only layers may be cut. Edges
        # never lead to an earlier layer, so the path is the row.
        place, _ = row_of_blocks(item_layers(problem, instance), before)
        return best_cuts(problem, np.array(place, dtype=np.int64)[instance.group])
