"""Programs to solve: work spread over devices."""

from __future__ import annotations

import numpy as np

from partita.engines.mip.model import MixedProgram


def spread(work: list[float], devices: int) -> tuple[MixedProgram, list[list[int]]]:
    """Minimise the largest of the devices' sums."""
    model = MixedProgram()
    top = model.add_continuous(0.0, sum(work), 1.0)
    place = [[model.add_binary() for _ in range(devices)] for _ in work]
    for row in place:
        model.add_row([(x, 1.0) for x in row], lower=1.0, upper=1.0)
    for d in range(devices):
        model.add_row([(top, -1.0), *((place[v][d], w) for v, w in enumerate(work))], upper=0.0)
    return model, place


def hard() -> MixedProgram:
    """A program that takes every backend minutes."""
    rng = np.random.default_rng(2)
    return spread((1 + rng.random(60)).tolist(), 7)[0]
