"""The covering bound: charges of which no block of load at most a target carries more than its share.

If no convex block of load <= T carries more than a k-th of all charge, no k blocks hold everything, and T is refuted.
The best charges are the dual of the program that covers all items with as few blocks of load <= T as possible (Dantzig
and Wolfe's relaxation of the set partitioning program). Blocks are found where the charges of those known so far allow
a block too much charge; searches find such a block or prove that there is none (``block_search``).

Whatever the charges, the proof is the search's: nothing depends on the program having been solved exactly.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.ground.rounding import GAP, NOT_ZERO
from partita.problems.throughput.bounds.block_pool import BlockCharges, BlockPool
from partita.problems.throughput.bounds.block_search import BlockSearch
from partita.problems.throughput.bounds.knowledge import FEW_BLOCKS, HierarchyBound, Knowledge, suits_programs

#: Most items: closures and searches need their square.
MOST_ITEMS = 1_500
#: Items above which the first target is nearer to the bound, since the searches take longer.
LARGE = 300
#: Least relative step of targets; where the first and the next ones lie between the bound and what charges promise;
#: and what charges must promise at least, as a part of what the target is above the bound.
STEP, FIRST, NEXT, HOPE = 1e-4, 0.3, 0.4, 0.3
#: Blocks found, as a share of the items, that are few; part of the time left that a target gets; and how many times as
#: long as the longest so far the next may take before the step to it is cut.
FEW, PATIENCE, TIMES = 0.1, 0.6, 4.0
#: Share of all charges below which what a block carries is nothing.
PLAIN = 1e-6
#: Items up to which programs of whole splits prove more where blocks are large.
WHOLE = 450
#: New blocks that only need to be grown, from which on charges are computed anew before anything is searched.
GROWN_FEW = 8
#: Nodes of the first search at an anchor, growth when none of the anchors finds a block, and how often it grows.
NODES, GROWTH, GROWN = 40, 8, 4
#: Part of what the sum of charges has to spare that is left when they are computed, largest and least share of it.
EVEN, COARSE, FINE = 0.6, 0.25, 5e-5
#: Share of the best charges in what is searched, unless the sum gets too small.
CALM = 0.5
#: Orders whose segments are the first blocks, and those of each further target.
ORDERS, FURTHER = 40, 2
#: Places of segments in all orders, at most about.
PLACES = 20_000


class Covering:
    """Runs that raise the bound that is known, each within the seconds left; see the module.

    A later run goes on with the blocks that are known.
    """

    left_s: Callable[[], float]

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self.threads = min(knowledge.threads, 2, os.cpu_count() or 1)
        self.random = np.random.default_rng(0)
        self.pool = BlockPool(knowledge.uniform)
        #: What the sum of charges had to spare the last time, as a share.
        self.spare = 0.05
        #: Seconds of the longest target so far, the next step, and the last search.
        self.longest = NOT_ZERO
        self.step = FIRST * min(1.0, LARGE / max(1, knowledge.uniform.items))
        self.search: BlockSearch | None = None
        #: The charges that promised most; work can be proven at once.
        self.best: Floats = knowledge.uniform.work.copy()

    def stop(self) -> bool:
        """Whether to end."""
        return self.knowledge.done or self.left_s() <= 0

    def run(self, left_s: Callable[[], float]) -> None:
        """Refute ever larger targets.

        The sum of charges falls about as fast as targets rise, so that the sum at one target promises how high targets
        may get; with every block found, it promises less.
        """
        knowledge, self.left_s = self.knowledge, left_s
        label = knowledge.label
        for block in () if label is None else np.unique(label):
            self.pool.add(label == block, active=True)
        orders = max(FURTHER, min(ORDERS, PLACES // knowledge.uniform.items))
        target = knowledge.bound * (1 + STEP)
        while not self.stop():
            self.pool.add_segments(self.random, FURTHER if self.search else orders, target)
            prices = self._charges(target)
            if prices is None:
                return
            target = self._towards(target * self._share(prices), self.step)
            if target <= knowledge.bound:
                return
            self.search = BlockSearch(self.pool, target, self.threads, self.stop, knowledge.charged, self.search)
            before, left = knowledge.bound, self.left_s()
            target = self._refute(self.search)
            if knowledge.bound <= before:
                return
            # The time that a target takes grows fast towards those that no charges refute.
            if math.isfinite(left):
                self.longest = max(self.longest, left - self.left_s())
            self.step = NEXT * min(1.0, max(0.0, self.left_s()) / (TIMES * self.longest))

    def _charges(self, target: float) -> BlockCharges | None:
        """Charges at a target, whose sum lacks a part of what it had to spare the last time."""
        prices = self.pool.charges(target, min(COARSE, max(FINE, EVEN * self.spare)), self.stop)
        if prices is not None:
            self.spare = max(0.0, prices.most / self.knowledge.uniform.devices - 1)
        return prices

    def _share(self, prices: BlockCharges) -> float:
        """What a device has to carry of charges."""
        return float(prices.charge.sum()) / self.knowledge.uniform.devices

    def _towards(self, promised: float, part: float) -> float:
        """A target on the way there from the bound; the bound, if it is not worth it."""
        bound, most = self.knowledge.bound, self.knowledge.value * (1 - GAP)
        target = bound + part * (min(promised, most) - bound)
        return min(target, most) if target > bound * (1 + STEP) else bound

    def _give_up(self) -> float:
        """Seconds left from which on a target has had its time."""
        return (1 - PATIENCE) * self.left_s() if math.isfinite(self.left_s()) else 0.0

    def _refute(self, search: BlockSearch) -> float:
        """Find blocks and charges in turn until none is missing, which refutes the target; the last target.

        The target is lowered on the way if charges no longer promise that much, or if it is too hard.
        """
        knowledge, devices, items = self.knowledge, self.knowledge.uniform.devices, self.knowledge.uniform.items
        give_up = self._give_up()
        flat = False
        while not self.stop():
            prices = self._charges(search.priced)
            if prices is None:
                break
            target, bound, share = search.target, knowledge.bound, self._share(prices)
            if target >= knowledge.value:
                # A better split has turned up.
                lower = self._towards(knowledge.value, NEXT)
                if lower <= bound:
                    break
                search.lower(lower, priced=True)
                continue
            if prices.most < devices * (1 + HOPE * (target / bound - 1)):
                lower = self._towards(search.priced * prices.most / devices, NEXT)
                if lower <= bound or lower > target * (1 - STEP):
                    break
                search.lower(lower, priced=True)
                continue
            if share <= 1:
                if flat:
                    break
                flat = True
                continue
            flat = False
            charge = self._between(prices.charge, search.priced)
            share = float(charge.sum()) / devices
            found, left = self._search(search, charge, share)
            self._compare(charge, search.priced)
            if found + left == 0 and math.isfinite(share):
                knowledge.refute(target, CoveringBound.name)
                break
            if found == 0 or self.left_s() <= give_up:
                # Too hard in the nodes or in the time it got. Where few blocks carry too much, charges nearly do.
                search.lower(0.5 * (target + bound), priced=found >= FEW * items)
                give_up = self._give_up() if found else give_up
            if search.target <= bound * (1 + STEP / 2):
                break
        return search.target

    def _carried(self, charge: Floats, target: float) -> float:
        """The most that a known block within the target carries; 0 where it is nothing beside the sum of charges.

        Charges of which known blocks carry nothing have no size: they may be of what is in none.
        """
        carried = self.pool.most_carried(charge, target)
        return carried if carried > PLAIN * float(charge.sum()) else 0.0

    def _between(self, charge: Floats, target: float) -> Floats:
        """Charges between new ones and the best, which add up to enough; no known block carries more than 1."""
        devices, carried = self.knowledge.uniform.devices, self._carried(self.best, target)
        if carried == 0:
            return charge
        best = self.best / carried
        new, old = float(charge.sum()) / devices, float(best.sum()) / devices
        part = CALM if old >= new else min(CALM, 0.5 * (new - 1) / (new - old))
        return part * best + (1 - part) * charge

    def _compare(self, charge: Floats, target: float) -> None:
        """Keep charges if they promise more than the best ones, with the blocks that are known now."""

        def promised(some: Floats) -> float:
            carried = self._carried(some, target)
            return float(some.sum()) / carried if carried > 0 else 0.0

        if promised(charge) > promised(self.best):
            self.best = charge

    def _search(self, search: BlockSearch, charge: Floats, share: float) -> tuple[int, int]:
        """Blocks of load <= target that carry more than ``share``, which go into the pool: how many, anchors left."""
        found = search.grow(charge, share)
        if found >= GROWN_FEW:
            return found, self.knowledge.uniform.items
        anchors, nodes, found = search.anchors(), NODES, 0
        for _ in range(GROWN):
            found, anchors = search.round(charge, share, anchors, nodes)
            nodes *= GROWTH
            if found or not anchors or self.stop():
                break
        return found, len(anchors)


class CoveringBound(HierarchyBound):
    """Dantzig and Wolfe's bound over convex blocks, with an exact search for blocks."""

    name = "covering"
    summary = "no k blocks can carry all charge: covers of the items by convex blocks, with an exact search for blocks"
    argument = (
        "prices on operators add up to more than all devices can collect with blocks below the target, by a "
        "search over convex blocks"
    )

    def share(self, uniform: BlockProblem) -> float:
        """Programs prove more where there are few blocks, or large ones of small graphs."""
        few = uniform.devices <= FEW_BLOCKS or (suits_programs(uniform) and uniform.items <= WHOLE)
        return 0.0 if few else 8.0

    def refine(self, knowledge: Knowledge, left_s: Callable[[], float]) -> None:
        """Raise the bound until the cover itself leaves a gap, the searches get too long, or the time ends."""
        uniform = knowledge.uniform
        few = uniform.items < 2 or uniform.devices < 2 or not uniform.work.sum() > 0
        if not few and uniform.items <= MOST_ITEMS:
            if self.name not in knowledge.kept:
                knowledge.kept[self.name] = Covering(knowledge)
            covering: Covering = knowledge.kept[self.name]
            covering.run(left_s)
