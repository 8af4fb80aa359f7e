"""Blocks found so far, what blocks cannot hold at a target, and charges of which no known block carries too much."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints, Longs, bit_rows, row_masks
from partita.engines.kernels.closures import closure_bits
from partita.engines.kernels.packing import pack, start_packing
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.convex_sets import Exclusions
from partita.engines.kernels.throughput.covering import longest_segments
from partita.ground.rounding import up_to
from partita.problems.throughput.bounds.knowledge import Charged

#: Times that conflicts are derived from charges and charges from conflicts.
ROUNDS = 3
#: Rows of the master program whose blocks carry less than this leave it.
LOOSE = 0.6
#: Blocks that join the master program at once; by how much they carry too much at least, and the same as a share of
#: the gap.
BATCH, BROKEN, ROUGHLY = 500, 1e-5, 0.02
#: How far inside of the last charges the next begin, and how far above what they need the weights do.
INWARDS, BEYOND = 0.97, 1.02
#: Steps of the master program before the clock is read: those of one item for so many.
STEPS_OF = 1_000


class BlockCharges(NamedTuple):
    """Charges (n,) of which no known block carries more than 1, and the most that such charges can add up to."""

    charge: Floats
    most: float


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
        #: Charges of the last master program, and the weights of its rows; 0 for blocks that were not in it.
        self.charge: Floats | None = None
        self.weight = np.zeros(1024)
        for mask in np.eye(n, dtype=np.bool_):
            self.add(mask, active=True)

    def exclusions(self, target: float, charged: Charged | None = None) -> Exclusions:
        """Conflicts and split nets for blocks of load at most ``target``, with those that are known at a larger target.

        Two items are in conflict if all items between them, the two included, weigh more than the target. A net is
        split if two of its pins are in conflict, or all that lies between its pins weighs too much. A block pays a
        split net that it touches, so each pin may carry its part of the cost, and items weigh more: this repeats.
        """
        uniform = self.uniform
        n, m = uniform.items, uniform.nets
        weight = uniform.work.copy()
        conflict = np.zeros((n, n), dtype=np.bool_)
        split, together = np.zeros(m, dtype=np.int8), np.diff(uniform.net.ptr).astype(np.int32)
        if charged is not None and charged.target >= target:
            conflict |= charged.apart
            np.fill_diagonal(conflict, val=False)
            split |= charged.parts.forced
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
            kept = (self.masks, self.loads, self.active, self.weight)
            self.masks, self.loads, self.active, self.weight = (np.concatenate([a, np.zeros_like(a)]) for a in kept)
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

    def most_carried(self, charge: Floats, target: float) -> float:
        """The most that a known block of load <= target carries."""
        known = slice(len(self.known))
        fits = self.loads[known] <= up_to(target)
        return float((self.masks[known] @ charge.astype(np.float32))[fits].max(initial=0.0))

    def _begin(self, ptr: Ints, member: Ints, places: Longs) -> tuple[Floats, Floats]:
        """Where the master program begins: a little inside of what the last one ended with."""
        n, charge, weight = self.masks.shape[1], self.charge, self.weight[places]
        if charge is None:
            return start_packing(ptr, member, n)
        carried = np.add.reduceat(charge[member], ptr[:-1])
        inside = INWARDS / max(1.0, float(carried.max()))
        room = 1 - inside * carried
        known = weight > 0
        weight[~known] = float((weight * room)[known].mean()) / room[~known]
        covered = np.bincount(member, np.repeat(weight, np.diff(ptr)), n)
        return inside * charge, weight * max(1.0, BEYOND / float(covered.min()))

    def charges(self, target: float, gap: float, stop: Callable[[], bool]) -> BlockCharges | None:
        """Charges of which no known block of load <= target carries more than 1; None if stopped.

        Their sum lacks about the share ``gap`` of the largest possible, and they keep away from corners of what is
        possible: the larger the gap, the more even they are.
        """
        n = self.masks.shape[1]
        known = slice(len(self.known))
        masks, active, fits = self.masks[known], self.active[known], self.loads[known] <= up_to(target)
        single = masks.sum(axis=1) == 1
        while True:
            # What no item alone may exceed bounds the program, whatever it costs.
            places = np.flatnonzero((active & fits) | single)
            rows = masks[places] > 0
            ptr = np.concatenate([[0], np.cumsum(rows.sum(axis=1))]).astype(np.int32)
            member = np.nonzero(rows)[1].astype(np.int32)
            charge, weight = self._begin(ptr, member, places)
            done = False
            while not done:
                most, done = pack(ptr, member, charge, weight, gap, 1 + STEPS_OF // n)
                if stop():
                    return None
            self.charge, self.weight[:] = charge, 0.0
            self.weight[places] = weight
            carried = masks @ charge.astype(np.float32)
            carried[~fits] = 0.0
            broken = np.flatnonzero(carried > 1 + max(BROKEN, ROUGHLY * gap))
            if len(broken) == 0:
                active[carried < LOOSE] = False
                return BlockCharges(charge / max(1.0, float(carried.max(initial=0.0))), most)
            active[broken[np.argsort(-carried[broken], kind="stable")][:BATCH]] = True


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
