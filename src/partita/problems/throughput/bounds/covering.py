"""The covering bound: charges of which no block of load at most a target carries more than its share.

If no convex block of load <= T carries more than a k-th of all charge, no k blocks hold everything, and T is refuted.
The best charges are the dual of the program that covers all items with as few blocks of load <= T as possible (Dantzig
and Wolfe's relaxation of the set partitioning program). Blocks are found where the charges of those known so far allow
a block too much charge; a depth-first search finds such a block or proves that there is none (``kernels.covering``).

Whatever the charges, the proof is the search's: nothing depends on the program having been solved exactly.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import numpy as np

from partita.engines.kernels.arrays import Floats, Words, row_masks
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.covering import Exclusions, search_block
from partita.engines.mip.solve import available
from partita.ground.rounding import GAP, clearly_below, up_to
from partita.problems.throughput.bounds.covering_sets import BlockPool
from partita.problems.throughput.bounds.knowledge import HierarchyBound, Knowledge, suits_programs

#: Most items: closures and searches need their square.
MOST_ITEMS = 1_500
#: Sums of charges over what the blocks may carry that targets are chosen for: the closer to 1, the harder the proof.
GOALS = (1.25, 1.09, 1.05, 1.03, 1.02, 1.012, 1.007, 1.004, 1.002, 1.0008)
#: Times that the first target is adjusted, and the least relative step of targets.
TRIES, STEP = 5, 1e-4
#: Least relative gain of a first target; part of a first ratio that lasts; part of the time left that a target gets;
#: gap to the best split that is not halved any more.
WORTHWHILE, LASTING, PATIENCE, NEAR = 0.01, 0.6, 0.6, 0.02
#: A target is given up when its sum falls below this share of what it was chosen for.
WORTH = 0.15
#: Nodes of the first search at an anchor, and growth when none of the anchors finds a block.
NODES, GROWTH = 200, 8
#: Growth after which few blocks are enough to compute charges anew.
PATIENT = 50
#: Rounds that look for better charges, where between 1 and the share they look, and blocks that make another worth it.
LOOKS, EASE, FEW = 6, 0.2, 0.1
#: Part of what the sum of charges has to spare that is kept when they are evened out.
KEEP = 0.6
#: Blocks after which the charges are computed anew.
ENOUGH = 400
#: Orders whose segments are the first blocks, and those of each further target.
ORDERS, FURTHER = 60, 2


class Covering:
    """One run, which raises the bound that is known, within the seconds left; see the module."""

    def __init__(self, knowledge: Knowledge, left_s: Callable[[], float]) -> None:
        self.knowledge, self.left_s = knowledge, left_s
        self.attempt_end = math.inf
        self.threads = min(knowledge.threads, 2, os.cpu_count() or 1)
        self.random = np.random.default_rng(0)
        self.pool = BlockPool(knowledge.uniform)
        self.flag = np.zeros(1, dtype=np.int64)
        #: Anchors by how hard they were, hardest first.
        self.hard = np.zeros(knowledge.uniform.items, dtype=np.int64)

    def stop(self) -> bool:
        """Whether to end."""
        return self.knowledge.done or self.left_s() <= 0

    def late(self) -> bool:
        """Whether to leave the target at hand."""
        return self.knowledge.done or time.perf_counter() >= self.attempt_end

    def run(self) -> None:
        """Refute ever larger targets."""
        knowledge = self.knowledge
        label = knowledge.label
        for block in () if label is None else np.unique(label):
            self.pool.add(label == block, active=True)
        target, ratio = self._first_target()
        goal = 0
        if target <= knowledge.bound * (1 + WORTHWHILE):
            # Others have proven that much. The ratio falls as blocks are found: count on the larger part of it only.
            goal, target = self._next(0, target, 1 + LASTING * (ratio - 1))
        while goal < len(GOALS) and not self.stop():
            exclusions = self.pool.exclusions(target)
            self.pool.add_segments(self.random, FURTHER, target)
            charge = self.pool.charges(target, self.stop)
            if charge is None:
                return
            self.attempt_end = time.perf_counter() + PATIENCE * self.left_s()
            least = 1 + WORTH * (GOALS[goal] - 1)
            ratio = self._refute(exclusions, charge, target, least)
            if knowledge.bound >= target:
                goal, target = self._next(goal + 1, target, ratio)
            elif ratio < least:
                goal, target = self._next(goal, target, ratio)
            elif target > knowledge.bound * (1 + 2 * STEP):
                # Too hard in the time it got.
                target = 0.5 * (knowledge.bound + target)
            else:
                return

    def _next(self, goal: int, target: float, ratio: float) -> tuple[int, float]:
        """The first goal from this one on whose target is above the bound, and that target.

        The sum of charges falls about as fast as targets rise: a target is chosen to leave what the goal wants. It is
        at most half of the way to the best split, as proofs get the harder the closer it is, unless little is left.
        """
        bound, value = self.knowledge.bound, self.knowledge.value
        most = value * (1 - GAP)
        if value - bound > NEAR * value and math.isfinite(value):
            most = 0.5 * (bound + value)
        for place in range(goal, len(GOALS)):
            found = min(most, target * ratio / GOALS[place])
            if found > bound * (1 + STEP):
                return place, found
        return len(GOALS), target

    def _first_target(self) -> tuple[float, float]:
        """A target for the first goal, by the blocks of random orders alone, and the ratio of sums there."""
        knowledge = self.knowledge
        target, ratio = knowledge.bound * 1.02, 1.0
        orders = ORDERS
        for _ in range(TRIES):
            target = min(target, knowledge.value * (1 - GAP))
            self.pool.add_segments(self.random, orders, target)
            orders = FURTHER
            charge = self.pool.charges(target, self.stop)
            if charge is None:
                break
            ratio = float(charge.sum()) / knowledge.uniform.devices
            wanted = max(target * ratio / GOALS[0], knowledge.bound * (1 + STEP))
            near = abs(wanted - target) <= 0.02 * target
            target = wanted
            if near:
                break
        return min(target, knowledge.value * (1 - GAP)), ratio

    def _refute(self, exclusions: Exclusions, charge: Floats, target: float, least: float) -> float:
        """Find blocks and charges in turn until none is missing, which refutes the target; the last ratio of sums.

        Ends early when the ratio falls below ``least``.
        """
        devices = self.knowledge.uniform.devices
        anchors = list(range(len(charge)))
        looks = LOOKS
        while True:
            ratio = float(charge.sum()) / devices
            if ratio < least or self.late():
                return ratio
            found = 0
            if looks > 0:
                # Blocks that carry more than those known, although not enough to matter, lead to better charges.
                looks -= 1
                found, _ = self._round(exclusions, charge, target, 1 + EASE * (ratio - 1), anchors, NODES)
                if found < FEW * len(anchors):
                    looks = 0
            if found == 0:
                even = self.pool.charges(target, self.late, devices * (1 + KEEP * (ratio - 1)))
                if even is None:
                    return ratio
                if self._search(exclusions, even, target, float(even.sum()) / devices):
                    self.knowledge.refute(target, CoveringBound.name)
                    return ratio
            new = None if self.late() else self.pool.charges(target, self.late)
            if new is None:
                return ratio
            charge = new

    def _search(self, exclusions: Exclusions, charge: Floats, target: float, share: float) -> bool:
        """Whether no block of load <= target carries more than ``share``; blocks that do go into the pool."""
        anchors = [int(v) for v in np.argsort(-self.hard, kind="stable")]
        nodes, total = NODES, 0
        few = FEW * len(anchors)
        while anchors:
            found, anchors = self._round(exclusions, charge, target, share, anchors, nodes)
            total += found
            if self.late() or total > few or (total > 0 and nodes > PATIENT * NODES):
                return False
            nodes *= GROWTH
        return total == 0

    def _round(
        self, exclusions: Exclusions, charge: Floats, target: float, share: float, anchors: list[int], nodes: int
    ) -> tuple[int, list[int]]:
        """Search at each anchor with so many nodes; the number of new blocks, and the anchors left open."""
        self.flag[0] = 0
        words = exclusions.after.shape[1]
        n, uniform = len(charge), self.knowledge.uniform

        def work(anchor: int) -> tuple[int, int, int, Words]:
            block = np.zeros(words, dtype=np.uint64)
            limit, wanted = up_to(target), clearly_below(share)
            status, used = search_block(uniform, exclusions, charge, limit, wanted, anchor, nodes, self.flag, block)
            better, best = status, block
            while better == 1:
                # The block of an anchor that carries most is worth more than several others.
                block, best = np.zeros(words, dtype=np.uint64), block
                wanted = up_to(float(charge[row_masks(best, n)].sum()))
                better, more = search_block(uniform, exclusions, charge, limit, wanted, anchor, NODES, self.flag, block)
                used += more
            return anchor, status, used, best

        found, open_anchors, place = 0, [], 0
        with ThreadPoolExecutor(self.threads) as executor:
            running: set[Future[tuple[int, int, int, Words]]] = set()
            while running or place < len(anchors):
                while place < len(anchors) and len(running) < 2 * self.threads and self.flag[0] == 0:
                    running.add(executor.submit(work, anchors[place]))
                    place += 1
                if not running:
                    break
                done, running = wait(running, timeout=0.05, return_when=FIRST_COMPLETED)
                if self.late():
                    self.flag[0] = 1
                for future in done:
                    anchor, status, used, block = future.result()
                    self.hard[anchor] = used
                    if status == 1:
                        found += self.pool.add(row_masks(block, n), active=True)
                    elif status == 2:
                        open_anchors.append(anchor)
                if found >= ENOUGH:
                    self.flag[0] = 1
        return found, open_anchors + anchors[place:]


class CoveringBound(HierarchyBound):
    """Dantzig and Wolfe's bound over convex blocks, with an exact search for blocks."""

    name = "covering"
    summary = "no k blocks can carry all charge: covers of the items by convex blocks, with an exact search for blocks"
    argument = (
        "prices on operators add up to more than all devices can collect with blocks below the target, by a "
        "search over convex blocks"
    )

    def share(self, uniform: BlockProblem) -> float:
        """The search for blocks is short where they are small; elsewhere programs prove more."""
        return 0.0 if suits_programs(uniform) else 8.0

    def refine(self, knowledge: Knowledge, left_s: Callable[[], float]) -> None:
        """Raise the bound until the cover itself leaves a gap, the searches get too long, or the time ends."""
        uniform = knowledge.uniform
        few = uniform.items < 2 or uniform.devices < 2 or not uniform.work.sum() > 0
        if not few and uniform.items <= MOST_ITEMS and available("highs"):
            Covering(knowledge, left_s).run()
