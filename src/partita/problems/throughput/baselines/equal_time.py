from __future__ import annotations

from partita.problems.throughput.baselines.base import LayerBaseline
from partita.problems.throughput.baselines.layers import Layers, balanced_boundaries, first_kind_work
from partita.problems.throughput.problem import ThroughputProblem


class EqualTime(LayerBaseline):
    """Cut the layers so that the largest compute time is smallest, measured on the first accelerator kind."""

    name = "equal-time"
    summary = "balances compute time of the first device kind; ignores memory and communication"

    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        return balanced_boundaries(layers.total(first_kind_work(problem, layers.instance)), devices)
