from __future__ import annotations

from partita.problems.throughput.baselines.base import LayerBaseline
from partita.problems.throughput.baselines.layers import Layers, balanced_boundaries
from partita.problems.throughput.problem import ThroughputProblem


class EqualParameters(LayerBaseline):
    """Cut the layers so that the largest sum of parameter bytes, each where it is first used, is smallest."""

    name = "equal-parameters"
    summary = "balances parameter bytes; ignores compute time, activations and communication"

    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        return balanced_boundaries(layers.stored(problem, copies=False), devices)
