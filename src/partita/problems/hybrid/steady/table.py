"""The best time per sample for every number of devices and microbatches at once, and the fewest devices that fit."""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.kernels.hybrid.stages import fill_times
from partita.ground.errors import UnsupportedError
from partita.ground.rounding import clearly_below
from partita.problems.hybrid.downsets import all_downsets
from partita.problems.hybrid.instance import build_instance
from partita.problems.hybrid.layer import Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.steady.solvers.decision import Family

#: Most downsets: a table takes thousands of decisions.
MOST_SETS = 1000


def best_times(problem: HybridProblem) -> Floats:
    """The optimum for every limit on devices and on microbatches in flight.

    Element [k, s] is the least time per sample with at most k devices and data-parallel degrees that add up to at most
    s; infinite where there is no plan. k goes to ``problem.devices``, s to the smaller of devices and microbatches; the
    other fields, the microbatches of a batch among them, stay as they are. Values are exact to 1e-9, relative.

    Decisions about a few targets each fill one entry of every column s, the fewest devices and the smallest bottleneck
    they reach; see ``_cover`` for how the targets are chosen.

    Raises
    ------
    UnsupportedError
        If there are too many downsets, configurations of one degree differ in weights or synchronisation, or the
        problem has machines.
    """

    def refusal(cause: str) -> UnsupportedError:
        return UnsupportedError(f"problem {problem.name!r} has {cause}; solve it for one size at a time")

    if problem.hierarchy is not None:
        raise refusal("machines, and a table counts devices")
    model = build_instance(problem)
    table = np.full((problem.devices + 1, model.width + 1), math.inf)
    if model.homeless:
        return table
    sets = all_downsets(model.after, model.before, MOST_SETS)
    if sets is None:
        raise refusal(f"more than {MOST_SETS} suffix sets")
    if not all(model.uniform):
        raise refusal("configurations that differ in weights or sync")
    family = Family(model, sets, np.zeros(1, dtype=np.int64))
    if not family.remembers:
        raise refusal("memory that replicas share out, or too many stages for a table")
    fill_times(family.work)
    _cover(family, table)
    return np.minimum.accumulate(np.minimum.accumulate(table, axis=0), axis=1)


def _cover(family: Family, table: Floats) -> None:
    """Decide targets until every number of devices that some column of the table needs has been seen.

    The fewest devices of a column rise as the target falls. A decision tells, for all columns, the least target at
    which they stay what they are. Between two decisions a column may hide something only where its devices differ by
    two or more; the next target is just under the median of those columns' least targets, and the decision looks only
    for plans that those columns may hide.
    """
    devices, columns = len(table) - 1, np.arange(table.shape[1])
    least = np.empty(family.fewest.shape)
    nothing = np.full(len(columns), math.inf)
    pending = [(np.full(len(columns), -1), nothing, 0.0, np.full(len(columns), devices + 1))]
    while pending:
        fewest, times, low, most = pending.pop()
        hides = (most > fewest + 1) & (clearly_below(times) > low)
        if not hides.any():
            continue
        above = np.sort(times[hides])
        target = clearly_below(float(above[len(above) // 2]))
        # A column's plan goes through sets with at most its sum.
        limits = np.maximum.accumulate(np.where(hides, most - 1, -1)[::-1])[::-1].astype(np.int32)
        family.fill(target, limits, least)
        found = hides & (family.fewest[-1] < most)
        between, value = np.where(hides, most, fewest), times.copy()
        between[found], value[found] = family.fewest[-1][found], least[-1][found]
        table[between[found], columns[found]] = np.minimum(table[between[found], columns[found]], value[found])
        pending.append((fewest, times, target, between))
        pending.append((between, value, low, most))


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
