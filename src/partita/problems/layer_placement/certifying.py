"""Certificates of bounds on layer placements: that the machines do not do the work of a larger flow."""

from __future__ import annotations

import math

from partita.checker.certificate import Certificate, as_in_file, first_proving, stating
from partita.checker.layer_placement.area import WorkOfLayers
from partita.engines.search.result import Bound
from partita.ground.rounding import just_below
from partita.problems.layer_placement.problem import LayerPlacementProblem


def certify(problem: LayerPlacementProblem, bound: Bound) -> WorkOfLayers | None:
    """A certificate that shows a bound; None where the work of all machines alone does not."""
    if not 0 < bound.value < math.inf:
        return None

    def made(stated: object) -> Certificate:
        # A little more than the flow of the bound, which itself there may be a plan with.
        flow = 1.0 / just_below(bound.value)
        return stating(WorkOfLayers(value=0.0, tokens_per_s=flow), as_in_file(problem))

    found = first_proving(as_in_file(problem), bound.value, [made])
    return found if isinstance(found, WorkOfLayers) else None
