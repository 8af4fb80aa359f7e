"""The same amount of parameters on every device."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from partita.problems.throughput.baselines.base import LayerBaseline
from partita.problems.throughput.baselines.layers import Layers, balanced_boundaries
from partita.problems.throughput.problem import ThroughputProblem


class EqualParameters(LayerBaseline):
    """Cut the layers so that the largest sum of parameter bytes is smallest."""

    name: ClassVar[str] = "equal-parameters"
    summary: ClassVar[str] = "balances parameter bytes; ignores compute time, activations and communication"

    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        """Balanced runs of layers by stored bytes; a shared parameter counts where it is first used."""
        group = layers.instance.group
        place_of = {op.id: place for place, op in enumerate(problem.operators)}
        stored = np.zeros(layers.instance.items)
        for parameter in problem.parameters:
            if parameter.users:
                stored[min(int(group[place_of[user]]) for user in parameter.users)] += parameter.weight_bytes
        for place, op in enumerate(problem.operators):
            stored[group[place]] += op.memory_bytes
        return balanced_boundaries(layers.total(stored), devices)
