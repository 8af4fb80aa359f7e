"""Machines times layers against the layers of the model: the largest flow whose work all machines together do.

With k layers a machine passes at most min(rate(k), f) of a flow f through each of them, so that a flow of f tokens per
second through L layers needs Σ_i max_k k·min(rate_i(k), f) >= f·L. Links count only in what a machine's own links bring
and take away. Source: own; the same sum, without the limit f, is in the upper bound of Helix's implementation.
"""

from __future__ import annotations

import math

import numpy as np

from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.ground.rounding import SUMMED, lowered, raised
from partita.problems.kind import BoundMethod
from partita.problems.layer_placement.instance import LayerInstance
from partita.problems.layer_placement.problem import LayerPlacementProblem

#: Halvings of the range of flows: more than a float has digits.
_HALVINGS = 80


class LayerArea(BoundMethod[LayerPlacementProblem]):
    """See the module."""

    name = "area"
    summary = "layers times tokens per second of all machines; ignores who holds which layers, and links between them"
    argument = "all machines together do not pass as many tokens per second through as many layers"

    def bound(self, problem: LayerPlacementProblem, monitor: Monitor) -> Bound:
        value = seconds_per_token(most_by_area(LayerInstance(problem)))
        return Bound(value, self.name, self.scope, monitor.elapsed_s)


def seconds_per_token(flow: float) -> float:
    """The bound on the objective that a bound on the flow is; infinite where nothing flows."""
    return lowered(1.0 / flow) if flow > 0 else math.inf


def most_by_area(instance: LayerInstance) -> float:
    """The bound, in tokens per second; 0 where the machines do not hold all layers."""
    sizes = np.arange(instance.rate.shape[1])

    def enough(flow: float) -> bool:
        share = np.minimum(instance.rate / flow, 1.0)
        return bool((sizes * share).max(axis=1).sum() >= instance.layers * (1.0 - SUMMED))

    if (np.where(instance.rate > 0, sizes, 0).max(axis=1)).sum() < instance.layers or instance.most <= 0:
        return 0.0
    low, high = 0.0, min(instance.most, raised(float(instance.rate.sum())))
    if enough(high):
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle > 0 and enough(middle):
            low = middle
        else:
            high = middle
    return high
