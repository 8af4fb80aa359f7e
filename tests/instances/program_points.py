"""Points of mixed-integer programs."""

from __future__ import annotations

import numpy as np

from partita.engines.mip.model import Floats, MixedProgram


def violation(model: MixedProgram, values: Floats) -> float:
    """The largest amount by which a point breaks a bound, a row or integrality, rows scaled to coefficient 1."""
    worst = 0.0
    for v, x in enumerate(values):
        worst = max(worst, model.lower[v] - x, x - model.upper[v])
        if model.binary[v]:
            worst = max(worst, abs(x - round(x)))
    for variables, coefficients, lower, upper in model.rows:
        total = float(np.dot(coefficients, values[variables])) if variables else 0.0
        scale = max([1.0, *(abs(c) for c in coefficients)])
        worst = max(worst, (lower - total) / scale, (total - upper) / scale)
    return worst
