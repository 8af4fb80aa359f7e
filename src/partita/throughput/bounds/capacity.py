"""The simple bound: work spread over the devices as if operators could be divided.

Source: the simple bound max(largest operator, total work / devices) of "Pipelined inference" (ICML 2024, §3),
generalised to device kinds by weighting every kind (see ``throughput.solvers.weights``).
"""

from __future__ import annotations

import numpy as np

from partita.result import Bound, Monitor
from partita.throughput.instance import build_instance
from partita.throughput.problem import ThroughputProblem

__all__ = ["CapacityBound"]

#: Passes over the kinds when the weights are tuned, and trial factors of each.
_PASSES = 4
_FACTORS = np.geomspace(1 / 8, 8, 33)


class CapacityBound:
    """Largest of the fastest single operators and of the total work over the devices' joint speed.

    For any weights y ≥ 0 of the kinds, Σ_v min_k y_k·t_vk ≤ T·Σ_k y_k·n_k holds at every feasible T: multiply every
    device's load by its kind's weight and add up. The weights are tuned by coordinate search; any choice is valid.
    """

    name = "capacity"
    summary = "total work over joint device speed, and the largest operator; ignores communication and memory"
    valid_for = "free"

    def supports(self, problem: ThroughputProblem) -> str | None:
        """Every problem."""
        return None

    def bound(self, problem: ThroughputProblem, monitor: Monitor) -> Bound:
        """The bound; infinite if an operator can run nowhere."""
        instance = build_instance(problem, free=True)
        usable = instance.count > 0
        work, count = instance.work[:, usable], instance.count[usable].astype(np.float64)
        fastest = work.min(axis=1)
        value = float(fastest.max())
        if np.isfinite(value):
            weights = np.ones(len(count))

            def total(y: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
                return float(np.min(work * y, axis=1).sum() / (count @ y))

            best = total(weights)
            for _ in range(_PASSES if len(count) > 1 else 0):
                for kind in range(len(count)):
                    for factor in _FACTORS:
                        trial = weights.copy()
                        trial[kind] *= factor
                        found = total(trial)
                        if found > best:
                            best, weights = found, trial
            # Sums of many operators may round up: step back by more than they can have gained.
            value = max(value, best * (1 - 1e-12))
        return Bound(value, self.name, self.valid_for, monitor.elapsed_s)
