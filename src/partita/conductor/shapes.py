"""What no step of a shape goes below, before it is split.

With S stages, R replicas, m microbatches for each of these, W the work of a microbatch, P the bytes of all parameters
and b the fastest link, 2·(R − 1)/R · P / b is the least that all stages exchange together. That hides behind the last
microbatch at most, so some stage needs

    max(m·W, (m − 1)·W + 2·(R − 1)/R · P / b) / S.

Of a chain of operators that wait for each other forward and back, C its work in a microbatch, a stage begins after the
forward parts of the stages before it and ends before their backward parts: with c_s its part of the chain, a step takes
Σ_{i<s} c_i + m·c_s for every s, and at least C / (1 − (1 − 1/m)^S), when all these are equal. Where gradients of
weights are made later, a stage waits for the forward parts alone, a share φ of c_i or more: φ·C / (1 − (1 − φ/m)^S).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from partita.problems.facets.replicas import Shape
from partita.simulator.placed import Floats

#: Rounding of a bound.
MARGIN = 1e-9


def shape_bound(shape: Shape[Any], links: Floats) -> float:
    """Seconds that no step of a shape goes below, on devices with these links; see the top of the module."""
    count, turns = shape.replicas, shape.turns
    ring = 0.0
    if count > 1 and shape.parameter_bytes > 0:
        ring = 2.0 * (count - 1) / count * shape.parameter_bytes / float(links[np.isfinite(links)].max())
    busy = max(turns * shape.work_s, (turns - 1) * shape.work_s + ring) / shape.stages
    share = shape.forward_share
    chain = shape.chain_s
    if share > 0:
        chain *= share / (1.0 - (1.0 - share / turns) ** shape.stages)
    return max(busy, chain) * (1 - MARGIN)


def shape_guess(shape: Shape[Any], bound: float) -> float:
    """Seconds that a step may take, to begin with what is good: equal stages that fill and drain."""
    return max(bound, (shape.turns + shape.stages - 1) * shape.work_s / shape.stages)
