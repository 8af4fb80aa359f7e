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

from partita.engines.kernels.arrays import Bools, Floats, Ints, Longs, Words, bit_rows, row_masks
from partita.engines.kernels.closures import closure_bits
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.covering import Exclusions, longest_segments, search_block
from partita.engines.mip.model import Callbacks, MixedProgram
from partita.engines.mip.solve import available, solve_program
from partita.ground.rounding import GAP, clearly_below, up_to
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
#: Times that conflicts are derived from charges and charges from conflicts.
ROUNDS = 3
#: Rows of the master program whose blocks carry less than this leave it.
LOOSE = 0.9
#: Part of an item's transfers that a good block pays, roughly.
PAID = 0.3
#: Blocks that join the master program at once.
BATCH = 200


class BlockPool:
    """What blocks of the relaxation cannot hold at a target, and blocks found so far with charges for them."""

    def __init__(self, uniform: BlockProblem) -> None:
        self.uniform = uniform
        n = uniform.items
        self.after = row_masks(closure_bits(uniform.graph, False), n)
        np.fill_diagonal(self.after, val=False)
        #: Of every block known, and room for more: its items, load, and whether the master program has it.
        self.masks = np.zeros((1024, n), dtype=np.float32)
        self.loads, self.active = np.zeros(1024), np.zeros(1024, dtype=np.bool_)
        self.known: set[bytes] = set()
        nets = np.repeat(np.arange(n), np.diff(uniform.net.item_ptr))
        touched = np.bincount(nets, weights=uniform.cost[uniform.net.of_item], minlength=n)
        #: What an item roughly costs a block that it is in, as a share of all work; never nothing.
        self.weight = (uniform.work + PAID * touched) / max(float(uniform.work.sum()), 1e-300) + 1e-3 / n
        for mask in np.eye(n, dtype=np.bool_):
            self.add(mask, active=True)

    def exclusions(self, target: float) -> Exclusions:
        """Conflicts and split nets for blocks of load at most ``target``.

        Two items are in conflict if all items between them, the two included, weigh more than the target. A net is
        split if two of its pins are in conflict, or all that lies between its pins weighs too much. A block pays a
        split net that it touches, so each pin may carry its part of the cost, and items weigh more: this repeats.
        """
        uniform = self.uniform
        n, m = uniform.items, uniform.nets
        weight = uniform.work.copy()
        conflict = np.zeros((n, n), dtype=np.bool_)
        split, together = np.zeros(m, dtype=np.int8), np.diff(uniform.net.ptr).astype(np.int32)
        limit, after = target * (1 + 1e-6), self.after.astype(np.float32)
        for number in range(ROUNDS):
            between = (after * weight.astype(np.float32)) @ after
            pairs = weight[:, None] + weight[None, :] + np.where(self.after, between, 0.0)
            pairs = np.maximum(pairs, pairs.T)
            # Single precision is enough for sums, with a margin.
            new: Bools = (pairs > limit * (1 + 1e-4)) | conflict
            np.fill_diagonal(new, val=False)
            if number > 0 and (new == conflict).all():
                break
            conflict = new
            weight = uniform.work.copy()
            for e in range(m):
                pins = uniform.net.members(e)
                if split[e] == 0:
                    split[e] = conflict[np.ix_(pins, pins)].any() or self._hull(pins) > limit
                if split[e] != 0:
                    together[e] = min(len(pins) - 1, _most_together(conflict[np.ix_(pins, pins)]))
                    weight[pins] += uniform.cost[e] / together[e]
        return Exclusions(
            after=bit_rows(self.after),
            before=bit_rows(self.after.T),
            conflict=bit_rows(conflict),
            split=split,
            together=together,
        )

    def _hull(self, pins: Ints) -> float:
        """Work of all that any block with these items holds."""
        inside = np.logical_and(self.after[pins].any(axis=0), self.after[:, pins].any(axis=1))
        inside[pins] = True
        return float(self.uniform.work[inside].sum())

    def _random_order(self, random: np.random.Generator) -> Longs:
        """An order, rather depth first or rather by random priorities."""
        uniform = self.uniform
        missing = np.diff(uniform.graph.pred_ptr).astype(np.int64)
        ready = [v for v in range(uniform.items) if missing[v] == 0]
        deep = float(random.random())
        order: list[int] = []
        while ready:
            last = random.random() < deep
            v = ready.pop() if last else ready.pop(int(random.integers(len(ready))))
            order.append(v)
            for s in random.permutation(uniform.graph.after(v)):
                missing[s] -= 1
                if missing[s] == 0:
                    ready.append(int(s))
        return np.array(order, dtype=np.int64)

    def add(self, mask: Bools, *, active: bool) -> bool:
        """Keep a block; false if it is known."""
        key = np.packbits(mask).tobytes()
        if key in self.known:
            return False
        place = len(self.known)
        self.known.add(key)
        if place == len(self.loads):
            rows = (np.concatenate([row, np.zeros_like(row)]) for row in (self.masks, self.loads, self.active))
            self.masks, self.loads, self.active = rows
        self.masks[place], self.loads[place], self.active[place] = mask, self.uniform.load(mask), active
        return True

    def add_segments(self, random: np.random.Generator, orders: int, target: float) -> None:
        """The longest segments of so many random orders that fit."""
        for _ in range(orders):
            order = self._random_order(random)
            lengths = longest_segments(self.uniform, order, target)
            for start, length in enumerate(lengths.tolist()):
                # A segment inside the one before it says nothing new.
                if length and (start == 0 or lengths[start - 1] <= length):
                    mask = np.zeros(len(order), dtype=np.bool_)
                    mask[order[start : start + length]] = True
                    self.add(mask, active=False)

    def charges(self, target: float, stop: Callable[[], bool], least: float | None = None) -> Floats | None:
        """(n,) charges of which no known block of load <= target carries more than 1; None if stopped.

        Their sum is the largest possible. Given ``least`` they have at least this sum, and of those that do the
        smallest largest ratio to what an item weighs: proofs are shorter when no item is cheap for its charge.
        """
        n = self.masks.shape[1]
        known = slice(len(self.known))
        masks, active, fits = self.masks[known], self.active[known], self.loads[known] <= target
        while not stop():
            model = MixedProgram()
            for _ in range(n):
                model.add_continuous(0.0, 1.0, -1.0 if least is None else 0.0)
            if least is not None:
                ratio = model.add_continuous(0.0, np.inf, 1.0)
                model.add_row([(v, 1.0) for v in range(n)], lower=least)
                for v in range(n):
                    model.add_row([(v, 1.0), (ratio, -self.weight[v])], upper=0.0)
            for row in np.flatnonzero(active & fits):
                model.add_row([(int(v), 1.0) for v in np.flatnonzero(masks[row])], upper=1.0)
            answer = solve_program(model, "highs", callbacks=Callbacks(stop=stop))
            if answer.values is None:
                break
            charge = np.maximum(answer.values[:n], 0.0)
            carried = masks @ charge.astype(np.float32)
            carried[~fits] = 0.0
            broken = np.flatnonzero(carried > 1 + 1e-5)
            if len(broken) == 0:
                if least is None:
                    active[(carried < LOOSE) & (masks.sum(axis=1) > 1)] = False
                return charge / max(1.0, float(carried.max(initial=0.0)))
            active[broken[np.argsort(-carried[broken], kind="stable")][:BATCH]] = True
        return None


def _most_together(conflict: Bools) -> int:
    """At most so many of some items share a block: each pair of a matching in their conflicts costs one."""
    most = len(conflict)
    free = np.ones(most, dtype=np.bool_)
    for v in range(len(conflict)):
        others = np.flatnonzero(conflict[v] & free)
        if free[v] and len(others):
            free[[v, others[0]]] = False
            most -= 1
    return max(1, most)


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
        for orders in (ORDERS, *[FURTHER] * (TRIES - 1)):
            target = min(target, knowledge.value * (1 - GAP))
            self.pool.add_segments(self.random, orders, target)
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
