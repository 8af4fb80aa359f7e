from __future__ import annotations

from partita.problems.throughput.baselines.base import LayerBaseline
from partita.problems.throughput.baselines.layers import Layers
from partita.problems.throughput.problem import ThroughputProblem


class SingleDevice(LayerBaseline):
    """All operators on the first accelerator: what a split must beat, if one device can hold the model."""

    name = "single-device"
    summary = "everything on the first device, no transfers; ignores the other devices and memory"

    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        return []
