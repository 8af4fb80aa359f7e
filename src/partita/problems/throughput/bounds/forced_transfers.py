"""The charge bound: what every split with loads up to a target must pay, added to the operators that make it pay.

At a target T some items cannot share a block, since what lies between them costs more than T, and some tensors are cut
in every split. A tensor that is cut is paid by every block with a pin of it, so its cost can be charged to pins, once
for pins that are apart, and in shares where a block could hold several. Then every block S has charged work(S) <= f(S)
<= T, which makes more pairs exclude each other, until nothing new is found. T is refuted where an item's charged work
exceeds it, the windows of blocks that items can be in leave no block, or the items need more than k blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from partita.engines.kernels.arrays import bit_rows
from partita.engines.kernels.closures import closure_bits
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.charges import charge_nets, heaviest_blocks, raise_shares, tighten_windows
from partita.engines.kernels.throughput.forced_cuts import TargetFacts, force_nets, separate_pairs
from partita.engines.kernels.throughput.mincut import block_network
from partita.ground.rounding import rounded_down, up_to
from partita.problems.throughput.bounds.knowledge import Charged, HierarchyBound, Knowledge, simple_bound

#: Items up to which pairs are looked at, and up to which closures are kept at all.
PAIRS_LIMIT = 1_500
CLOSURE_LIMIT = 20_000
#: Times that all conditions are gone through for one target.
ROUNDS = 12
#: Items of which the pairs are looked at before the clock is read.
BATCH = 64
#: Times that shares are raised by minimum cuts, and the gain that makes another time worth it.
RAISES, GAIN = 5, 0.002
#: Targets are tried until the largest refuted one is this close to the smallest that is not.
PRECISION = 1e-3
#: First step above the bound where no value is known.
FIRST_STEP = 0.02


class Charges:
    """Settles targets, from large ones to small ones: what holds at one holds at all below it."""

    def __init__(self, uniform: BlockProblem, stop: Callable[[], bool] = lambda: False) -> None:
        self.uniform = uniform
        self.stop = stop
        n = uniform.items
        self.closures = 0 < n <= CLOSURE_LIMIT
        self.pairs = n <= PAIRS_LIMIT
        nothing = np.zeros((n, 0), dtype=np.uint64)
        self.later = closure_bits(uniform.graph, False) if self.closures else nothing
        self.earlier = closure_bits(uniform.graph, True) if self.closures else nothing

    def start(self, target: float) -> Charged:
        """Nothing is known."""
        n = self.uniform.items
        parts = TargetFacts(
            later=self.later,
            earlier=self.earlier,
            apart=np.zeros((n if self.pairs else 0, self.later.shape[1]), dtype=np.uint64),
            forced=np.zeros(self.uniform.nets, dtype=np.int8),
            first=np.zeros(n, dtype=np.int32),
            last=np.full(n, self.uniform.devices - 1, dtype=np.int32),
        )
        return Charged(target, self.uniform.work.copy(), np.zeros(n), parts)

    def settle(self, state: Charged) -> bool:
        """Find all that holds at the state's target; false if no split reaches it (true if that is not known)."""
        limit = up_to(state.target)
        if simple_bound(self.uniform) > limit:
            return False
        if self.closures and limit > 0:
            try:
                self._settle(state, limit)
            except _Refuted:
                return False
        return True

    def _settle(self, state: Charged, limit: float) -> None:
        uniform, parts = self.uniform, state.parts
        for _ in range(ROUNDS):
            found = force_nets(uniform, parts, limit) + self._separate(state, limit)
            _refute_if(float(uniform.cost[parts.forced > 0].max(initial=0.0)) > limit)
            work = charge_nets(uniform, parts, limit)
            # Both are valid; the one that adds up to more is kept.
            if work.sum() > state.work.sum():
                state.work[:] = work
            _refute_if(float(state.work.max(initial=0.0)) > limit or self._needed(state, limit) > uniform.devices)
            found += self._tighten(state)
            if self.stop() or (found == 0 and not self.pairs):
                return
            if found == 0:
                # Nothing cheap is left to find.
                _refute_if(self._raise(state, limit) > up_to(float(uniform.devices)))
                if not self._tighten(state) or self.stop():
                    return

    def _separate(self, state: Charged, limit: float) -> int:
        """New pairs that are apart."""
        uniform, found = self.uniform, 0
        network = block_network(uniform, state.parts.forced)
        for start in range(uniform.items - 1 if self.pairs else -1, -1, -BATCH):
            new, refuted = separate_pairs(uniform, state.parts, limit, network, start, BATCH)
            found += new
            _refute_if(refuted)
            if self.stop():
                break
        return found

    def _raise(self, state: Charged, limit: float) -> float:
        """Divide shares by the most that a block with the item can hold; what they add up to."""
        n, devices, share = self.uniform.items, self.uniform.devices, state.share
        network = block_network(self.uniform, state.parts.forced)
        total = float(share.sum())
        rates = np.zeros(n)
        for left in range(RAISES - 1, -1, -1):
            most = np.ones(n)
            for start in range(0, n, BATCH):
                heaviest_blocks(self.uniform, state.parts, network, share, limit, start, BATCH, rates, most)
                if self.stop():
                    return total
            rates *= np.maximum(most, share)
            _refute_if(bool(np.any(most < share * (1 - 1e-6))))
            share /= np.maximum(most, share)
            before, total = total, float(share.sum())
            if total > up_to(float(devices)):
                break
            if total * (total / before) ** left < devices or total < before * (1 + GAIN):
                break
        return rounded_down(total, total, n)

    def _needed(self, state: Charged, limit: float) -> float:
        """Blocks that are needed: the shares' sum, which the state keeps."""
        plain = state.work / limit
        if not self.pairs:
            state.share[:] = plain
            return rounded_down(float(plain.sum()), float(plain.sum()), len(plain))
        best = -1.0
        for least in (0.0, 0.25, 1 / 3, 0.5):
            share = plain.copy()
            if least:
                # Items that no other fits beside count as whole blocks, those that fit beside any as nothing.
                share = np.where(plain < least, 0.0, np.where(plain > 1 - least, 1.0, plain))
            order = np.argsort(-plain, kind="stable").astype(np.int32)
            total = raise_shares(order, share, state.work, limit, state.parts.apart)
            if total > best:
                best = total
                state.share[:] = share
        return rounded_down(best, best, len(plain))

    def _tighten(self, state: Charged) -> int:
        """New pairs that are apart as they have no common block (moved windows without pairs)."""
        moved, refuted = tighten_windows(self.uniform, state.parts, state.share, self.uniform.devices)
        _refute_if(refuted)
        if not moved or not self.pairs:
            return int(moved)
        first, last, apart = state.parts.first, state.parts.last, state.parts.apart
        before = int(np.bitwise_count(apart).sum())
        apart |= bit_rows((first[:, None] > last) | (first > last[:, None]))
        return int(np.bitwise_count(apart).sum()) - before


class _Refuted(Exception):
    """No split reaches the target."""


def _refute_if(impossible: bool) -> None:
    if impossible:
        raise _Refuted


def charged_at(uniform: BlockProblem, target: float, stop: Callable[[], bool] = lambda: False) -> Charged | None:
    """What holds in all splits with loads up to a target; None if there is no such split."""
    charges = Charges(uniform, stop)
    state = charges.start(target)
    return state if charges.settle(state) else None


class ChargeBound(HierarchyBound):
    """Bisects for the largest target that charges refute."""

    name = "charge"
    summary = "transfers that no split avoids, charged to operators: windows, pairs apart, cut tensors, packing"
    argument = (
        "transfers that every split pays are charged to operators, and the charged work does not fit onto the devices"
    )

    def share(self, uniform: BlockProblem) -> float:
        """It needs little, and the others build on it."""
        return 2.0

    def refine(self, knowledge: Knowledge, left_s: Callable[[], float]) -> None:
        """Targets between the bound and the best value; without one, ever larger steps above the bound first."""
        uniform = knowledge.uniform
        if uniform.items < 2 or uniform.devices < 2:
            return

        def stop() -> bool:
            return knowledge.done or left_s() <= 0

        charges = Charges(uniform, stop)
        known = self._upper(charges, knowledge)
        while known is not None and not stop():
            if known.target <= knowledge.bound * (1 + PRECISION):
                return
            # Items need at least as many more blocks as the target is smaller.
            low = max(knowledge.bound, known.target * float(known.share.sum()) / uniform.devices)
            state = known.at(min(0.5 * (low + known.target), known.target * (1 - 0.9 * PRECISION)))
            if charges.settle(state):
                known = state
            else:
                knowledge.refute(state.target, self.name)

    def _upper(self, charges: Charges, knowledge: Knowledge) -> Charged | None:
        """A target to go down from: the best value known, or else the first above the bound that is not refuted."""
        step = FIRST_STEP
        while not charges.stop() and knowledge.bound > 0:
            # What holds at the best value holds in every split that is worth finding.
            value = knowledge.value
            state = charges.start(value if math.isfinite(value) else knowledge.bound * (1 + step))
            if charges.settle(state):
                knowledge.charged = state
                return state
            knowledge.refute(state.target, self.name)
            step *= 2
        return None
