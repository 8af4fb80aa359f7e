"""What stages of a row cost: every run of units, from one first unit at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.engines.kernels.graph_arrays import Sets
from partita.problems.throughput.contiguity import colocated, colocation_classes, order_pairs
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.problem import ThroughputProblem


@dataclass(frozen=True)
class Runs:
    """Runs from one first unit, by their number of units less one, over k device kinds."""

    #: (k, runs) all of it, and the part of the backward phase.
    work: Floats
    backward_work: Floats
    transfers: Floats
    backward_transfers: Floats
    #: (runs,) bytes held once, held for every microbatch in flight, of forward tensors that enter, needed while it
    #: runs, and of what replicas exchange.
    fixed: Floats
    active: Floats
    entering: Floats
    workspace: Floats
    synchronised: Floats


class RowCosts:
    """The row of a problem, as arrays over its ``units``, which is their number, in order.

    ``next_cut`` (units,) is, by the first unit of a stage, the least unit at which the next stage may begin; the end is
    always one. ``cuts`` (units + 1,) tells whether a stage may begin there; the end counts.
    """

    def __init__(self, problem: ThroughputProblem) -> None:
        row = problem.row
        assert row is not None
        self.units = len(row.units)
        unit_of = {identity: number for number, unit in enumerate(row.units) for identity in unit}
        units = np.array([unit_of[op.id] for op in problem.operators])
        self.instance = build_instance(colocated(problem.replace(row=None), units), free=True)
        place = np.empty(self.units, dtype=np.int64)
        place[self.instance.group] = units
        self.item = np.argsort(place)
        self._nets = _sorted_pins(place, self.instance.net)
        self._covers = _sorted_pins(place, self.instance.cover)
        source = self.instance.net_source
        self._source = np.where(source >= 0, place[source], -1)
        self.cuts = np.ones(self.units + 1, dtype=bool)
        classes = colocation_classes(problem)
        pairs = units[order_pairs(problem, classes)]
        back = [(int(b), int(a)) for a, b in pairs if b < a]
        # Where something is handed back, or must share a device, nothing between may be cut.
        spans = [units[classes == number] for number in range(int(classes.max()) + 1)]
        for first, last in [*back, *((int(span.min()), int(span.max())) for span in spans)]:
            self.cuts[first + 1 : last + 1] = False
        self.next_cut = np.arange(1, self.units + 1)
        for first, last in row.handed:
            # With a cut between the two, the next one comes behind the second.
            within = slice(first + 1, last + 1)
            self.next_cut[within] = np.maximum(self.next_cut[within], last + 1)

    def runs(self, first: int) -> Runs:
        """What the runs from a unit on cost."""
        i, item = self.instance, self.item[first:]

        def summed(values: Floats) -> Floats:
            found: Floats = np.cumsum(values[item], axis=0)
            return found

        cut, crossing = self._cut_nets(first)
        held = self._held(first, self._covers)
        fixed = summed(i.fixed) + held @ i.cover_fixed
        active = summed(i.active) + held @ i.cover_active
        return Runs(
            work=summed(i.work).T,
            backward_work=summed(i.work_backward).T,
            transfers=(cut @ i.net_cost).T,
            backward_transfers=(cut @ i.net_backward).T,
            fixed=fixed,
            active=active,
            entering=crossing @ i.net_entering,
            workspace=np.maximum.accumulate(i.workspace[item]),
            synchronised=summed(i.sync) + held @ i.cover_sync,
        )

    def _held(self, first: int, pins: Sequence[Longs]) -> Floats:
        """(runs, sets) 1 where a run has one of a set of units."""
        found = np.zeros((self.units - first, len(pins)))
        for number, places in enumerate(pins):
            nearest = places[np.searchsorted(places, first) :]
            if len(nearest):
                found[nearest[0] - first :, number] = 1.0
        return found

    def _cut_nets(self, first: int) -> tuple[Floats, Floats]:
        """(runs, nets) 1 for nets with a pin inside and one outside, and for those whose source is outside."""
        cut = self._held(first, self._nets)
        crossing = cut.copy()
        for number, places in enumerate(self._nets):
            if places[0] >= first:
                cut[places[-1] - first :, number] = 0.0
            source = self._source[number]
            if source < 0:
                crossing[:, number] = 0.0
            elif source >= first:
                crossing[source - first :, number] = 0.0
        return cut, crossing


def _sorted_pins(place: Longs, sets: Sets) -> list[Longs]:
    """Units of every set, ascending."""
    return [np.sort(place[sets.members(row)]) for row in range(len(sets.ptr) - 1)]
