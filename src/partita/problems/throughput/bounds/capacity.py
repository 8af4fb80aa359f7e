"""The simple bound: work spread over the devices as if operators could be divided.

Source: the simple bound max(largest operator, total work / devices) of "Pipelined inference" (ICML 2024, §3),
generalised to device kinds by weighting every kind (see ``throughput.solvers.remaining_capacity``).
"""

from __future__ import annotations

import itertools

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.ground.rounding import rounded_down
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import BoundMethod

#: Passes over the kinds when the weights are tuned, and trial factors of each.
_PASSES = 4
_FACTORS = np.geomspace(1 / 8, 8, 33)


class CapacityBound(BoundMethod):
    """Largest of the fastest single operators and of the total work over the devices' joint speed.

    For any weights y ≥ 0 of the kinds, Σ_v min_k y_k·t_vk ≤ T·Σ_k y_k·n_k holds at every feasible T: multiply every
    device's load by its kind's weight and add up. The weights are tuned by coordinate search; any choice is valid.

    This holds for every variant, whose loads are at least work: replicas share a stage's work (so the largest operator
    may be on as many devices as a stage may have), and what overlaps, waits for other groups or is fetched again only
    adds. GPipe's objective is at least the sum of the bounds of its two phases.
    """

    name = "capacity"
    summary = "total work over joint device speed, and the largest operator; ignores communication and memory"
    argument = (
        "loads weighted by kind add up to at least each operator's cheapest weighted time, and some device holds "
        "each operator"
    )
    scope = "free"

    def bound(self, problem: ThroughputProblem, monitor: Monitor) -> Bound:
        instance = build_instance(problem, free=True)
        usable = instance.count > 0
        work, count = instance.work[:, usable], instance.count[usable].astype(np.float64)
        replicas = np.minimum(count, problem.max_replicas)
        value = _least(work, count, replicas)
        if problem.gpipe and np.isfinite(value):
            late = np.where(np.isfinite(work), instance.work_backward[:, usable], np.inf)
            with np.errstate(invalid="ignore"):
                early = np.where(np.isfinite(work), work - instance.work_backward[:, usable], np.inf)
            both = _least(early, count, replicas) + _least(late, count, replicas)
            # Forward work is a difference, of numbers that the sum is at least a device's share of.
            value = max(value, rounded_down(both, both * float(count.sum()), len(instance.work)))
        return Bound(value, self.name, self.scope, monitor.elapsed_s)


def _least(work: Floats, count: Floats, replicas: Floats) -> float:
    """Lower bound on the largest load for (n, K) work on so many devices of each kind."""
    value = float((work / replicas).min(axis=1).max())
    if not np.isfinite(value):
        return value
    best = tuned_weights(work, count)[1]
    return max(value, rounded_down(best, best, len(work)))


def tuned_weights(work: Floats, count: Floats) -> tuple[Floats, float]:
    """Weights of the kinds by coordinate search, and what they prove: Σ_v min_k y_k·t_vk / Σ_k y_k·n_k."""
    weights = np.ones(len(count))

    def total(y: Floats) -> float:
        return float(np.min(work * y, axis=1).sum() / (count @ y))

    best = total(weights)
    for _, kind in itertools.product(range(_PASSES if len(count) > 1 else 0), range(len(count))):
        for factor in _FACTORS:
            trial = weights.copy()
            trial[kind] *= factor
            found = total(trial)
            if found > best:
                best, weights = found, trial
    return weights, best
