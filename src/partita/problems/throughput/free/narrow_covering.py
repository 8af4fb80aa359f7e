"""Charges of the covering bound where richest sets are found exactly: column generation that proves as it goes.

Every look for the richest sets of some charges says whether they refute the target. While few sets are known, the
charges of the master program jump about: those asked for are the program's within a box around the best charges so far,
which gets wider where it keeps its promises (Marsten, Hogan and Blankenship, *The boxstep method for large-scale
optimization*, Operations Research 23, 1975).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.ground.rounding import GAP, NOT_ZERO, TOLERANCE, clearly_below, lowered
from partita.problems.throughput.free.columns import DeviceSets
from partita.problems.throughput.free.narrow import NarrowSets, narrow_states, order_of
from partita.problems.throughput.free.program import kinds_of
from partita.problems.throughput.free.search import FreeIncumbent

#: Where between the bound and the lowest target that charges cannot refute the next target lies.
STEP = 0.5
#: Gap from which on the next target is the best value itself.
NEAR = 0.01
#: Share of that value at which the bound of all charges is known well enough.
NEARNESS = 2e-6
#: A bound is taken on the way if it closes this share of the gap; by how much less than charges promise it is asked.
WORTH_IT = 0.2
HAIR = 1e-5
#: How far from the best charges so far, as a share of each (or of the mean, where they are less than a part of that),
#: the program looks for better ones: at first and at most.
RADIUS, WIDEST, LEAST_CHARGE = 0.1, 1e3, 0.2
#: By how much nearer where they come to nothing, and farther where they keep a part of what they promise.
SHRINK, GROW, KEPT = 0.7, 1.2, 0.1
#: By how much wider a box is that has nothing more to offer, and which part of what is left counts as nothing.
WIDER, LITTLE = 2.0, 0.01


def narrow_sets(best: FreeIncumbent, stop: Callable[[], bool]) -> dict[int, NarrowSets] | None:
    """A finder of richest sets for every kind that pays for transfers; None where the graph is not narrow."""
    arrays = best.free.arrays
    order = order_of(arrays)
    if order is None:
        return None
    found: dict[int, NarrowSets] = {}
    for kind in kinds_of(arrays)[1]:
        states = narrow_states(arrays, kind, order)
        if states is None:
            return None
        found[kind] = NarrowSets(states, order, stop)
    return found


class NarrowCovering:
    """Raises a bound by charges, with ``sets`` that ``narrow_sets`` gave."""

    def __init__(self, best: FreeIncumbent, sets: dict[int, NarrowSets], stop: Callable[[], bool]) -> None:
        self.best, self.sets, self.stop = best, sets, stop
        self.columns = DeviceSets(best, stop)
        self.rounds = 0
        #: What charges lack at least against the sets known when they last could not refute a target.
        self.lacking = 0.0
        #: The lowest target that no charges can refute.
        self.ceiling = math.inf
        work = np.min(best.free.arrays.work[:, self.columns.kinds], axis=1)
        #: The charges that came nearest to refuting the last target, with Σ n_k·(the most of a set of kind k) = 1.
        self.centre: Floats = work / max(float(work.sum()), NOT_ZERO)

    @property
    def programs(self) -> int:
        """Searches for richest sets with labels."""
        return sum(one.searches for one in self.sets.values())

    def run(self, nearness: float = NEARNESS) -> None:
        """Raise the bound until it meets the value, is this near to what charges can prove, or the run is stopped."""
        best = self.best
        if not self.centre.sum() > 0 or best.answer is None:
            return
        while not self.stop():
            value, bound = best.value, best.bound
            top = min(self.ceiling, value)
            if top - bound <= nearness * value:
                return
            if top - bound > NEAR * value or self.ceiling <= value:
                target = bound + STEP * (top - bound)
            else:
                target = value * (1 - 2 * GAP)
            refuted = self._refutes(target)
            if refuted is None and self.stop():
                return
            # One that was too hard is as good as one that charges cannot refute: lower ones may be easier.
            if not refuted:
                self.ceiling = target

    def nearest(self, target: float, spare: float, enough: float) -> Floats | None:
        """Charges that lack ``enough`` to refute a target, or a part to ``spare`` more than those that lack least.

        None where they refute it, or where that was not found out.
        """
        return self.centre if self._refutes(target, spare, enough) is False else None

    def _refutes(self, target: float, spare: float = math.inf, enough: float = 0.0) -> bool | None:
        """Whether charges show that no split is within the target; None if that was not found out.

        If none do, or the ``centre`` lacks no more than ``enough``, it lacks no more than ``nearest`` has it.
        """
        nearest, radius = self._judge(self.centre, target, exact=False), RADIUS
        if nearest is None:
            return True
        self.centre = self.centre / nearest[1]
        while not self.stop():
            answer = self.columns.master(target)
            if answer is None:
                return None
            total = answer[0]
            self.lacking = max(0.0, 1 - total)
            near_enough = 1 - nearest[0] <= enough
            if near_enough or (total <= 1 + GAP and 1 - nearest[0] <= (1 + spare) * max(self.lacking, NOT_ZERO)):
                return False
            self.rounds += 1
            known = len(self.columns.known)
            boxed = self._near(target, radius)
            if boxed is None:
                # In a box that is too small for the program's tolerances there is nothing.
                boxed, radius = answer, RADIUS
            promised, near = boxed
            for exact in (False, True):
                ratio = self._judge(near, target, exact=exact)
                if ratio is None:
                    return True
                if self.stop():
                    return None
                if ratio[0] > nearest[0]:
                    if ratio[0] > nearest[0] + KEPT * (promised - nearest[0]):
                        radius *= GROW
                    nearest, self.centre = ratio, near / ratio[1]
                    self._harvest(target * ratio[0])
                elif len(self.columns.known) > known:
                    radius *= SHRINK
                if len(self.columns.known) > known or promised <= nearest[0] + LITTLE * (total - nearest[0]):
                    break
            if len(self.columns.known) == known:
                # The box has nothing more to offer.
                if promised >= total * (1 - TOLERANCE):
                    return False if total <= 1 + GAP else None
                radius *= WIDER
            radius = min(WIDEST, radius)
        return None

    def _near(self, target: float, radius: float) -> tuple[float, Floats] | None:
        """The program's charges near the best ones: these promise less, and keep more of it."""
        reach = radius * np.maximum(self.centre, LEAST_CHARGE * float(self.centre.mean()))
        return self.columns.master(target, (np.maximum(0.0, self.centre - reach), np.minimum(1.0, self.centre + reach)))

    def _harvest(self, target: float) -> None:
        """Prove a lower target where the best charges may refute it and that closes a good part of the gap."""
        best, centre = self.best, self.centre
        target *= 1 - HAIR
        if target - best.bound > WORTH_IT * (best.value - best.bound):
            self._judge(centre, target, exact=True)
            self.centre = centre

    def _judge(self, charge: Floats, target: float, *, exact: bool) -> tuple[float, float] | None:
        """Charges over the most that all devices can hold of them, and that most; None if the target is refuted."""
        columns, total = self.columns, float(charge.sum())
        most = columns.knapsack_weight(charge, target)
        for place, (kind, finder) in enumerate(self.sets.items()):
            number = columns.number[kind]
            floor = columns.carried(kind, charge, target)
            if place == len(self.sets) - 1:
                # With less than this on the devices of the last kind the target is refuted.
                floor = max(floor, clearly_below(total - most) / number)
            found = finder.richest(charge, target, floor, exact=exact)
            for items, load in zip(found.sets, found.loads, strict=True):
                columns.add(kind, items, load)
            most += number * found.most
        most = max(most, NOT_ZERO)
        if lowered(total) > most:
            # A split within the target would put all charges on its devices.
            self.best.prove(clearly_below(target), "covering-free")
            self.centre = charge / most
            return None
        return total / most, most
