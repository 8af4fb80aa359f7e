"""Energetic reasoning: what must run within windows of time, wherever it runs, beside what there is room for."""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.makespan.arrays import MakespanArrays
from partita.ground.rounding import TOLERANCE

#: Steps in the weights of the devices; windows whose first value is below this share are left.
_STEPS, _FAR = 24, 0.7


@compiled
def overfull(
    a: MakespanArrays,
    time: Floats,
    head: Floats,
    tail: Floats,
    horizon: float,
    opens: Floats,
    closes: Floats,
    stop: Longs,
) -> bool:
    """Whether some window of time holds more work than all devices can do in it, if everything ends by the horizon.

    An operator on d runs within [head − time, horizon − tail]. Of that, the lesser of its overlap with [t₁, t₂] when it
    runs as early and as late as it can must fall into the window. Let the devices have weights w ≥ 0 with Σ w = 1. No
    device works longer than t₂ − t₁ within it, so that the sum over operators (those that run together as one) of the
    least over devices of w · energy must not exceed t₂ − t₁.

    ``time``, ``head`` and ``tail`` (n, D) are as in ``find_labels``; ``opens`` and ``closes`` are starts and ends of
    windows to look at, and any value but 0 of ``stop`` (1,) ends the search.
    """
    n, devices = time.shape
    groups = a.group.ptr.shape[0] - 1
    energy = np.zeros((groups, devices))
    weights = np.empty(devices)
    load = np.empty(devices)
    for opened in opens:
        for closed in closes:
            length = closed - opened
            if stop[0] != 0:
                return False
            if length <= 0:
                continue
            energy[:] = 0.0
            for v in range(n):
                for d in range(devices):
                    lasts = time[v, d]
                    if lasts == math.inf:
                        energy[a.group.of[v], d] = math.inf
                        continue
                    early, late = head[v, d] - lasts, horizon - tail[v, d] - lasts
                    inside = min(
                        min(early + lasts, closed) - max(early, opened), min(late + lasts, closed) - max(late, opened)
                    )
                    if inside > 0:
                        energy[a.group.of[v], d] += inside
            weights[:] = 1.0 / devices
            for step in range(_STEPS):
                total = 0.0
                load[:] = 0.0
                for g in range(groups):
                    least, chosen = math.inf, -1
                    for d in range(devices):
                        if energy[g, d] < math.inf and weights[d] * energy[g, d] < least:
                            least, chosen = weights[d] * energy[g, d], d
                    if chosen < 0:
                        return True
                    total += least
                    load[chosen] += energy[g, chosen]
                if total > length * (1.0 + TOLERANCE) + TOLERANCE * horizon:
                    return True
                if total < _FAR * length:
                    break
                summed = 0.0
                for d in range(devices):
                    weights[d] *= math.exp(min(4.0, max(-4.0, (load[d] / total - 1.0) / math.sqrt(step + 4.0))))
                    summed += weights[d]
                weights /= summed
    return False
