"""The best time per sample for every number of devices and microbatches at once."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from partita.errors import UnsupportedError
from partita.hybrid.downsets import all_suffix_sets
from partita.hybrid.instance import build_model
from partita.hybrid.problem import HybridProblem
from partita.hybrid.solvers.decision import Family

__all__ = ["best_times"]

#: Most suffix sets: a table takes thousands of decisions.
MOST_SETS = 1000
#: The next target is this much below the largest time of the last.
_BELOW = 1e-9


def best_times(problem: HybridProblem) -> npt.NDArray[np.float64]:
    """The optimum for every limit on devices and on microbatches in flight.

    Element [k, s] is the least time per sample with at most k devices and data-parallel degrees that add up to at most
    s; infinite where there is no plan. k goes to ``problem.devices``, s to the smaller of devices and microbatches; the
    other fields, the microbatches of a batch among them, stay as they are. Values are exact to 1e-9, relative.

    Targets sweep downwards: a decision gives, for each s, the fewest devices and the smallest bottleneck they reach,
    and the next target is just under the largest of these.

    Raises
    ------
    UnsupportedError
        If there are too many suffix sets, or configurations of one degree differ in weights or synchronisation.
    """
    from partita.kernels.hybrid import NONE
    from partita.kernels.hybrid_stages import fill_times

    model = build_model(problem)
    table = np.full((problem.devices + 1, model.width + 1), math.inf)
    if any(not any(row[v] for row in model.options) for v in range(len(model.order))):
        return table
    sets = all_suffix_sets(model.after, model.before, MOST_SETS)
    if sets is None or not all(model.uniform):
        cause = (
            f"more than {MOST_SETS} suffix sets" if sets is None else "configurations that differ in weights or sync"
        )
        raise UnsupportedError(f"problem {problem.name!r} has {cause}; solve it for one size at a time")
    stop = np.zeros(1, dtype=np.int64)
    family = Family(model, sets, stop)
    if not family.remembers:
        raise UnsupportedError(
            f"problem {problem.name!r} has too many stages for a table; solve it for one size at a time"
        )
    fill_times(family.arrays, family.scratch, family.known, stop)
    least = np.empty(family.fewest.shape)
    columns = np.arange(model.width + 1)
    target = math.inf
    while True:
        family.fill(target, least)
        fewest, times = family.fewest[-1], least[-1]
        found = fewest < NONE
        if not found.any():
            break
        np.minimum.at(table, (fewest[found], columns[found]), times[found])
        target = float(times[found].max()) * (1 - _BELOW)
        if target <= 0:
            break
    return np.minimum.accumulate(np.minimum.accumulate(table, axis=0), axis=1)
