"""The blocks of a chain with their ends on every pair of devices: what is known of each, and how more is found out."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

from partita.engines.kernels.arrays import Longs
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.bounds.blocks import BlockBounds
from partita.problems.makespan.bounds.energetic import destructive_bound
from partita.problems.makespan.bounds.multipliers import multiplier_bound
from partita.problems.makespan.exhaustive import try_everything
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.local_search import search
from partita.problems.makespan.plan import Schedule
from partita.problems.makespan.protocol import Options
from partita.problems.makespan.separators import Block, Chain
from partita.problems.makespan.solvers.program import prove_by_program

#: Rounds of annealing of a block at first, and before CP-SAT is asked.
_ROUNDS, _MORE = 2, 8
#: Steps in which everything is tried, while that is enough.
_STEPS = 200_000
#: Seconds of the first attempt at a block, and how much longer each further one is.
FIRST_S, LONGER = 1.5, 2.0


class Arc:
    """A block between two devices.

    Attributes
    ----------
    best
        What is known of that.
    patience_s
        Seconds that the next attempt may take.
    """

    def __init__(self, block: Block, source: int, target: int, least: float, stop: Longs) -> None:
        self.block, self.source, self.target = block, source, target
        self.best: Incumbent[Schedule] = Incumbent()
        # One button stops the whole run.
        self.best.stop = stop
        self.patience_s = FIRST_S
        self.empty = not block.members
        self.searched = self.bounded = self.ended = False
        self.small = not self.empty
        if math.isinf(least):
            self.best.refute("devices of classes")
        else:
            self.best.prove(least, "simple bounds")

    @cached_property
    def instance(self) -> MakespanInstance:
        """Its problem."""
        return self.block.at(self.source, self.target)

    @property
    def low(self) -> float:
        """What its makespan is at least."""
        return self.best.bound

    @property
    def high(self) -> float:
        """What its makespan is at most."""
        return self.best.value

    @property
    def open(self) -> bool:
        """Whether more can be found out.

        A makespan that CP-SAT has proven to be the best is, up to the rounding of its numbers, all there is to know.
        """
        return not (self.ended or self.best.closed)

    def search(self, seed: int, stop: Callable[[], bool]) -> None:
        """A first schedule, once."""
        if self.searched or not self.open or stop():
            return
        self.searched = True
        search(self.instance, self.best, seed=seed, rounds=0 if self.empty else _ROUNDS)
        if self.empty and self.best.answer is not None:
            # All its flows go from one device to another: one after the other, or at once, there is no choice.
            self.best.prove(self.best.value, "one way")

    def prove(self, cut: float, stop: Callable[[], bool], left_s: float, options: Options) -> None:
        """Find out more: by trying everything, or where that is too much by annealing, the first time, and CP-SAT.

        Makespans above ``cut`` do not matter.
        """
        low, high = self.low, self.high
        if self.small:
            self.small = try_everything(self.instance, self.best, steps=_STEPS, most=max(cut, 0.0))
            self.ended = self.small and (self.low, self.high) == (low, high)
            if self.small or stop():
                return
        if not (self.bounded or self.empty):
            self.bounded = True
            clock = Monitor(left_s if math.isfinite(left_s) else None)
            if self.low > 0:
                self.best.prove(destructive_bound(self.instance, self.low, clock), "energetic")
            self.best.prove(multiplier_bound(self.instance, clock), "multipliers")
            if self.open and not stop():
                search(self.instance, self.best, seed=options.seed + 1, rounds=_MORE)
            if not self.open or stop() or self.low > cut:
                return
        horizon = None if math.isinf(cut) else max(cut, 0.0)
        low, high = self.low, self.high
        time_s = min(self.patience_s, left_s)
        self.patience_s *= LONGER
        done = prove_by_program(
            self.instance,
            self.best,
            lambda: stop() or self.best.closed,
            time_s=time_s,
            options=options,
            horizon=horizon,
        )
        # Without one within the cut only that is known, and another place may have a larger cut. But where nothing came
        # of it, as where all that is best fails by rounding, nothing comes of it again.
        self.ended = done and (self.high <= cut or (self.low, self.high) == (low, high))


class Arcs:
    """All of a chain's, equal ones once."""

    def __init__(self, chain: Chain, stop: Longs) -> None:
        self.chain, self.stop = chain, stop
        self.known: dict[tuple[bytes, int, int], Arc] = {}
        self.bounds: dict[bytes, BlockBounds] = {}

    def arc(self, number: int, source: int, target: int) -> Arc:
        """A block's; −1 for a device where it has no such end."""
        block = self.chain.blocks[number]
        key = block.key, source, target
        if key not in self.known:
            if block.key not in self.bounds:
                self.bounds[block.key] = BlockBounds(block)
            self.known[key] = Arc(block, source, target, self.bounds[block.key].bound(source, target), self.stop)
        return self.known[key]
