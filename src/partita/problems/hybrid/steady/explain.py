"""What there is not enough of where there is no plan for the time per sample."""

from __future__ import annotations

import math

import numpy as np

from partita.problems.hybrid.downsets import all_downsets
from partita.problems.hybrid.instance import build_instance
from partita.problems.hybrid.layer import Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.steady.solvers.decision import Family

#: Tables larger than this are not filled only for an explanation.
_MOST_ENTRIES = 20_000_000


def least_memory(problem: HybridProblem, layer: Layer) -> float:
    """Memory of a stage with one layer, one microbatch and as many replicas as there can be: no stage needs less."""
    return min(
        choice.held_bytes(1, max(1, min(problem.devices // degree, problem.microbatches)))
        for degree, choices in layer.configurations.items()
        if degree <= problem.devices_per_machine
        for choice in choices
    )


def smallest_devices(problem: HybridProblem) -> str | None:
    """As of every objective: whatever the time; empty if none fit, or the table would be large; None on machines."""
    if problem.hierarchy is not None:
        return None
    most = max(degree for layer in problem.layers for degree in layer.configurations)
    # One replica for every layer on its own is the longest row that can help; more replicas only share memory.
    width = min(problem.microbatches, 4 * len(problem.layers) + problem.devices)
    model = build_instance(problem.replace(devices=width * most, microbatches=problem.microbatches))
    sets = all_downsets(model.after, model.before, _MOST_ENTRIES // (model.width + 1))
    if sets is None or len(sets) ** 2 > _MOST_ENTRIES:
        return ""
    family = Family(model, sets, np.zeros(1, dtype=np.int64))
    found = family.fewest_devices(math.inf)
    # Replicas beyond the width would need more devices than that.
    known = found is not None and (found <= width or width == problem.microbatches)
    return f"the smallest count that fits is {found} devices" if known else ""
