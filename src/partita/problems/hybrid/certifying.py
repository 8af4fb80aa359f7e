"""Certificates of bounds on the time per sample: the fewest devices of every set of last layers."""

from __future__ import annotations

from partita.checker.certificate import Certificate, Problem, as_in_file, first_proving
from partita.checker.hybrid.suffix_sets import SuffixSets, closed_sets
from partita.engines.search.result import Bound
from partita.ground.rounding import just_below
from partita.problems.hybrid.certificate import refutation
from partita.problems.hybrid.problem import HybridProblem

#: Most sets that are listed, and most stages that have to be looked at.
_SETS, _STAGES = 200, 100_000


def certify(problem: HybridProblem, bound: Bound) -> Certificate | None:
    """A certificate that shows a bound; None for steps, with a hierarchy, or where it would not be small."""
    if problem.training is not None or problem.hierarchy is not None or not bound.value > 0:
        return None
    width = min(problem.devices, problem.microbatches)
    degrees = {t for layer in problem.layers for t in layer.configurations if t <= problem.devices}
    stages = width * sum(min(width, problem.devices // t) for t in degrees)

    def made(stated: Problem) -> Certificate | None:
        count = len(closed_sets(stated, _SETS))
        if count > _SETS or count * count * stages > 2 * _STAGES:
            return None
        found = refutation(problem, just_below(bound.value))
        if found is None:
            return None
        return SuffixSets(value=found.target, sets=found.sets, outside=found.outside, fewest=found.fewest)

    return first_proving(as_in_file(problem), bound.value, [made])
