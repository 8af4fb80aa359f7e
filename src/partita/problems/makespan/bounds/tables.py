"""Tables of blocks: what a block takes at least, by where its largest operators are and the devices of its ends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs
from partita.engines.kernels.makespan.exhaust import exhaust
from partita.engines.kernels.makespan.ways import cheapest_ways, longest_chains
from partita.ground.rounding import SUMMED, clearly_below, rounded_down
from partita.problems.makespan.instance import MakespanInstance, labels
from partita.problems.makespan.separators import Block

#: Steps in which everything but what is heavy is tried, and operators of a block up to which that is done.
_STEPS, _SMALL = 400_000, 24


@dataclass(frozen=True)
class Piece:
    """The best schedule of a block, by its operators and flows."""

    device: list[int]
    start: list[float]
    flow_start: list[float]
    length: float


class BlockTable:
    """What a block takes at least, by way and by the devices of its ends (one place where it has no such end)."""

    def __init__(
        self, block: Block, stop: Longs, instance: MakespanInstance, heavy: Sequence[int], numbers: Longs
    ) -> None:
        """With these ``heavy`` classes of the block's problem, which ``instance`` is.

        ``numbers`` (m, D + 1) are ways to renumber devices that leave that problem as it is.
        """
        self.block, self.instance, a = block, instance, instance.arrays
        self.entry = 0 if block.entry >= 0 else -1
        self.exit = instance.count - 1 if block.exit >= 0 else -1
        self.heavy = list(heavy)
        ways = list(itertools.product(*(instance.choices[g] for g in self.heavy)))
        self.ways: Longs = np.array(ways, dtype=np.int64).reshape(len(ways), len(self.heavy))
        #: (ways, D) What the heavy ones hold.
        self.held = np.zeros((len(self.ways), instance.devices))
        for column, g in enumerate(self.heavy):
            self.held[np.arange(len(self.ways)), self.ways[:, column]] += instance.sizes[g]
        #: Classes that are paid for where they may be: their memory, without that of the ends, and these devices.
        inner = [v for v in range(instance.count) if v not in (self.entry, self.exit)]
        rest = np.bincount(a.group.of[inner], a.memory[inner], len(instance.sizes))
        rest[self.heavy] = 0.0
        self.light = np.flatnonzero(rest > 0)
        self.light_sizes: Floats = rest[self.light].astype(np.float64)
        self.light_able = instance.by_class(instance.able)[self.light]
        #: (ways, D or 1, D or 1), raised as more is known.
        self.least = np.zeros((len(ways), *(instance.devices if v >= 0 else 1 for v in (self.entry, self.exit))))
        self._find_chains(instance.able, self.ways, stop, self.least)
        self.known: dict[tuple[int, int, int], Piece | None] = {}
        self._numbers = numbers
        #: (heavy, D) What a device adds to the number of a way.
        self._adds = np.zeros((len(self.heavy), instance.devices), dtype=np.int64)
        for column, g in enumerate(self.heavy):
            stride = math.prod(len(instance.choices[h]) for h in self.heavy[column + 1 :])
            self._adds[column, instance.choices[g]] = stride * np.arange(len(instance.choices[g]))

    def images(self, way: int, source: int, target: int) -> dict[tuple[int, int, int], Longs]:
        """All entries that are this one with devices renumbered, itself among them, and the numbers (D + 1,)."""
        numbers = self._numbers
        ways = self._adds[np.arange(len(self.heavy)), numbers[:, self.ways[way]]].sum(axis=1)
        keys = zip(ways.tolist(), numbers[:, source].tolist(), numbers[:, target].tolist(), strict=True)
        return dict(zip(keys, numbers, strict=True))

    def _find_chains(self, able: Bools, ways: Longs, stop: Longs, found: Floats) -> None:
        """Fill ``found`` with what chains and heavy classes take at least, where operators may be on (n, D)."""
        instance, placed = self.instance, np.array(self.heavy, dtype=np.int64)
        given = instance.arrays, able, instance.ordered, placed, ways, self.entry, self.exit
        longest_chains(*given, stop, found)
        found *= 1.0 - SUMMED

    @property
    def small(self) -> bool:
        """Whether everything is tried."""
        return self.instance.count <= _SMALL

    @property
    def finds(self) -> bool:
        """Whether looking at an entry finds its best schedule."""
        return self.small

    def _able(self, way: int) -> Bools:
        """(n, D) Where operators may be."""
        able = self.instance.able.copy()
        for g, d in zip(self.heavy, self.ways[way], strict=True):
            able[self.instance.arrays.group.of == g] = np.arange(self.instance.devices) == d
        return able

    def at(self, way: int, source: int, target: int) -> float:
        """What the block takes at least with a way, between two devices, −1 for no end."""
        return float(self.least[way, max(source, 0), max(target, 0)])

    def begin(self) -> None:
        """From now on look anew at what prices change."""

    def priced(self, price: Floats) -> Floats:
        """(ways, D or 1, D or 1) What the block takes and holds at least, its entry aside."""
        found: Floats = (
            self.least + ((self.held @ price) + cheapest(self.light_sizes, self.light_able, price)[0])[:, None, None]
        )
        return found

    def paid(self, visits: Floats, asks: Floats) -> Floats:
        """(ways, D or 1, D or 1) What is held on the ends at a price by unit, less what coming to the last is paid."""
        each: Floats = self.held * asks
        found: Floats = np.zeros(self.least.shape)
        if self.entry >= 0:
            found += each[:, :, None]
        if self.exit >= 0:
            found += (each - visits)[:, None, :]
        if self.entry >= 0 and self.exit >= 0:
            # Those that stay hold it once, and come to nothing.
            here = np.arange(self.instance.devices)
            found[:, here, here] += visits - each
        return found

    def cheapest(self, price: Floats, visits: Floats, asks: Floats) -> tuple[Floats, Longs]:
        """(D or 1, D or 1) The least of ``priced`` and ``paid`` together over all ways, and which that is."""
        each = (self.held @ price) + cheapest(self.light_sizes, self.light_able, price)[0]
        return self._cheapest(self.least, each, visits, asks)

    def _cheapest(self, cost: Floats, each: Floats, visits: Floats, asks: Floats) -> tuple[Floats, Longs]:
        best, way = np.empty(self.least.shape[1:]), np.empty(self.least.shape[1:], dtype=np.int64)
        cheapest_ways(cost, each, self.held * asks, visits, self.entry >= 0, self.exit >= 0, best, way)
        return best, way

    def holds(self, way: int, source: int, target: int, price: Floats) -> Floats:
        """(D,) What is held where that is least."""
        found: Floats = self.held[way] + cheapest(self.light_sizes, self.light_able, price)[1]
        return found

    def refine(self, way: int, source: int, target: int, price: Floats, stop: Longs, most: float = math.inf) -> bool:
        """Find out more of a way between two devices, −1 for no end, at some prices; whether that is new.

        Everything that is left is tried, and entries that are the same with devices renumbered are known as well. Only
        schedules shorter than ``most`` are looked for: what takes as long is known to be no shorter.
        """
        key = way, source, target
        if key in self.known or stop[0] != 0 or self.at(*key) >= most:
            return False
        instance = self.block.at(source, target)
        able = self._able(way) & instance.able
        n, flows = instance.count, len(instance.problem.flows)
        device, start, flow_start = np.zeros(n, dtype=np.int32), np.zeros(n), np.zeros(flows)
        self.known[key] = None
        part = self.least[way, max(source, 0) : max(source, 0) + 1, max(target, 0)]
        if not able.any(axis=1).all():
            part[:] = math.inf
            return True
        if not self.small:
            return True
        head, tail = labels(instance.arrays, instance.ordered, np.where(able, instance.arrays.time, math.inf))
        arrays = instance.arrays._replace(tail=clearly_below(tail))
        given = arrays, able, head, instance.ordered, instance.most_held
        found, ended = exhaust(*given, most, _STEPS, stop, device, start, flow_start)
        least = float(part[0])
        if ended:
            least = max(least, rounded_down(found, found, n + flows) if math.isfinite(found) else math.inf)
        for (w, s, t), numbers in self.images(*key).items():
            at = w, max(s, 0), max(t, 0)
            self.least[at] = max(self.least[at], least)
            self.known[w, s, t] = None
            if found < most:
                made = numbers[device].tolist(), start.tolist(), flow_start.tolist(), found
                self.known[w, s, t] = Piece(*made)
        return True


def heavy_of(block: Block, instance: MakespanInstance, most_ways: int) -> list[int]:
    """The classes of a block that hold most, its ends aside, with so many ways to place them."""
    ends = {
        int(instance.arrays.group.of[v])
        for v, there in ((0, block.entry), (instance.count - 1, block.exit))
        if there >= 0
    }
    inside = sorted((g for g in range(len(instance.sizes)) if g not in ends), key=lambda g: -instance.sizes[g])
    most = int(math.log(most_ways) / math.log(max(2, instance.devices)) + 1e-9)
    return [g for g in inside[:most] if instance.sizes[g] > 0]


def cheapest(sizes: Floats, able: Bools, price: Floats) -> tuple[float, Floats]:
    """What classes cost where that is cheapest, and what devices hold of them then."""
    held = np.zeros(len(price))
    if not len(sizes):
        return 0.0, held
    each = np.where(able, price[None, :], math.inf)
    np.add.at(held, each.argmin(axis=1), sizes)
    return float(sizes @ each.min(axis=1)), held
