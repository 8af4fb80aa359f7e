"""The common parts of the baselines: what they support, and one cut of the layers without search."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from partita.engines.search.monitor import Monitor
from partita.problems.throughput.baselines.layers import Layers, accelerator_devices, find_layers, plan_from_labels
from partita.problems.throughput.contiguity import colocated
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome, Solver


class FreeSplits(Solver):
    """Knows nothing of contiguity."""

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        if options.contiguity != "free":
            return f"{self.name} gives free splits only; ask for them with --contiguity free"
        return None


class LayerBaseline(Solver, ABC):
    """A split that only chooses where to cut the row of layers. It proves nothing, and may not fit in memory."""

    def row(self, problem: ThroughputProblem) -> Layers:
        """The layers to cut."""
        return find_layers(problem)

    @abstractmethod
    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        """First layer of every device after the first, ascending."""

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        layers, devices = self.row(problem), len(accelerator_devices(problem))
        cuts = np.array(self.cuts(problem, layers, devices)[: devices - 1], dtype=np.int64)
        run = np.searchsorted(cuts, layers.layer_of, side="right")
        return Outcome(plan=plan_from_labels(problem, layers.instance, run))


def best_cuts(problem: ThroughputProblem, node: npt.ArrayLike) -> Outcome:
    """The best cuts of the path that operators make where all of a node stay together; no plan if no cut fits.

    ``node`` (operators,) is the node of each. Cuts know work, transfers and memory.
    """
    from partita.problems.throughput.solvers.plain import plain_view
    from partita.problems.throughput.solvers.remaining_capacity import lower_bounds
    from partita.problems.throughput.solvers.slicing_search import OrderSlicer

    view = plain_view(colocated(problem, node))
    low = lower_bounds(view)
    if np.isinf(low.both):
        return Outcome(plan=None)
    # The items are numbered topologically, so this order is the path.
    found = OrderSlicer(view, low, np.zeros(1, dtype=np.int64)).exact(np.arange(view.items, dtype=np.int32))
    return Outcome(plan=None if found is None else view.plan(found[1]))
