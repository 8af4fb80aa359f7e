"""Certificates of bounds on loads: work that has to be done, and paths out of one operator that somebody pays for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from partita.checker.certificate import Certificate, Problem, as_in_file, classes, first_proving, stating
from partita.checker.numbers import exact, least
from partita.checker.throughput.costs import present, recomputes, work
from partita.checker.throughput.downsets import MOST_SETS, Downsets, Graph
from partita.checker.throughput.work import LargestOperator, SharedWork
from partita.engines.kernels.arrays import Floats
from partita.engines.search.result import Bound
from partita.ground.rounding import just_below
from partita.problems.throughput.paths import charged_paths
from partita.problems.throughput.problem import ThroughputProblem

#: Passes over the kinds when weights are tuned, and trial factors of each.
_PASSES, _FACTORS = 4, np.geomspace(1 / 8, 8, 33)


def certify(problem: ThroughputProblem, bound: Bound) -> Certificate | None:
    """A certificate that shows a bound; None where neither work, one operator's transfers nor a count does."""

    def paths(stated: Problem) -> Certificate | None:
        return charged_paths(problem, bound)

    def downsets(stated: Problem) -> Certificate | None:
        if bound.scope != "acyclic":
            return None
        target = just_below(bound.value)
        sets = len(Graph(stated, exact(target)).downsets(most=MOST_SETS))
        return Downsets(value=target, sets=sets) if sets <= MOST_SETS else None

    return first_proving(as_in_file(problem), bound.value, [_largest, _shared, paths, downsets])


def _largest(stated: Problem) -> Certificate | None:
    """Of the class of operators that takes longest, as replicas share it."""
    kinds, again = present(stated), recomputes(stated)
    replicas = {kind: min(stated["kinds"][kind]["count"], stated.get("max_replicas", 1)) for kind in kinds}
    values: list[Fraction | None] = []
    rows = classes(stated)
    for members in rows:
        own = [(kind, work(members, kind, again)) for kind in kinds]
        values.append(least(None if value is None else value / replicas[kind] for kind, value in own))
    if any(value is None for value in values):
        return None
    longest = max(range(len(rows)), key=lambda place: values[place] or 0)
    return stating(LargestOperator(value=0.0, operator=rows[longest][0]["id"]), stated)


def _shared(stated: Problem) -> Certificate | None:
    """With weights tuned by coordinate search; any are valid."""
    kinds, again = present(stated), recomputes(stated)
    rows = [[work(members, kind, again) for kind in kinds] for members in classes(stated)]
    costs: Floats = np.array([[np.inf if one is None else float(one) for one in row] for row in rows])
    if not np.isfinite(costs.min(axis=1)).all():
        return None
    count = np.array([stated["kinds"][kind]["count"] for kind in kinds], dtype=np.float64)
    tuned = np.ones(len(kinds))

    def value(weights: Floats) -> float:
        return float(np.min(costs * weights, axis=1).sum() / (count @ weights))

    for _ in range(_PASSES if len(kinds) > 1 else 0):
        for place in range(len(kinds)):
            for factor in _FACTORS:
                trial = tuned.copy()
                trial[place] *= factor
                if value(trial) > value(tuned):
                    tuned = trial
    weights = [0.0] * len(stated["kinds"])
    for kind, weight in zip(kinds, tuned / tuned.max(), strict=True):
        weights[kind] = float(weight)
    return stating(SharedWork(value=0.0, weights=tuple(weights)), stated)
