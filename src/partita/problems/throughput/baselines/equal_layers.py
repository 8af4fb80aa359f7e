from __future__ import annotations

from partita.problems.throughput.baselines.base import LayerBaseline
from partita.problems.throughput.baselines.layers import Layers
from partita.problems.throughput.problem import ThroughputProblem


class EqualLayers(LayerBaseline):
    """Device i of d takes layers ⌊i·n/d⌋ up to ⌊(i+1)·n/d⌋."""

    name = "equal-layers"
    summary = "equal number of layers per device; ignores their cost, memory and communication"

    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        return sorted({i * layers.count // devices for i in range(1, devices)} - {0})
