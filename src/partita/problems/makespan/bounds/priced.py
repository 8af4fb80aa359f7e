"""Blocks of a chain with prices on memory: what every block takes, by where its largest operators are.

Memory couples the blocks between separators. Let the devices have prices µ >= 0 on what they hold. In any schedule
Σ µ(d) · (held(d) − memory(d)) is at most 0, so the makespan plus that is at most the makespan; and it is a sum over
separators and blocks. So with the least of every block between any two devices, its memory paid for, the shortest path
less Σ µ(d) · memory(d) is a bound for all prices, and what the path holds says how to change them.

Of a block the *heavy* operators, those that hold most, are placed in every way, and what is known of the block with
each is in a table: chains at first, and what trying everything says once the path asks for it. All others are paid for
where that is cheapest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs
from partita.engines.kernels.makespan.exhaust import exhaust
from partita.engines.kernels.makespan.ways import longest_chains
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import SUMMED, clearly_below, rounded_down, rounded_up
from partita.problems.makespan.instance import MakespanInstance, labels
from partita.problems.makespan.separators import Block, Chain

#: Ways to place what is heavy in a block, at most, and (operators · devices · ways) of all blocks; steps in which
#: everything else is tried.
_WAYS, _WORK, _STEPS = 4096, 10_000_000, 400_000
#: Operators of a block up to which that is tried.
_MOST = 24
#: What rounding may add, of all that is summed.
_ROUNDING = 10 * SUMMED


@dataclass(frozen=True)
class Piece:
    """The best schedule of a block, by its operators and flows."""

    device: list[int]
    start: list[float]
    flow_start: list[float]
    length: float


class BlockTable:
    """What a block takes at least, by way and by the devices of its ends (one place where it has no such end)."""

    def __init__(self, block: Block, most_ways: int, stop: Longs) -> None:
        self.block, self.instance = block, block.at()
        instance, a = self.instance, self.instance.arrays
        self.entry = 0 if block.entry >= 0 else -1
        self.exit = instance.count - 1 if block.exit >= 0 else -1
        ends = {int(a.group.of[v]) for v in (self.entry, self.exit) if v >= 0}
        inside = sorted((g for g in range(len(instance.sizes)) if g not in ends), key=lambda g: -instance.sizes[g])
        most = int(math.log(most_ways) / math.log(max(2, instance.devices)) + 1e-9)
        self.heavy = [g for g in inside[:most] if instance.sizes[g] > 0]
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
        heavy = np.array(self.heavy, dtype=np.int64)
        given = a, instance.able, instance.ordered, heavy, self.ways, self.entry, self.exit
        longest_chains(*given, stop, self.least)
        self.least *= 1.0 - SUMMED
        self.known: dict[tuple[int, int, int], Piece | None] = {}

    @property
    def small(self) -> bool:
        """Whether everything is tried."""
        return self.instance.count <= _MOST

    def _able(self, way: int) -> Bools:
        """(n, D) Where operators may be."""
        able = self.instance.able.copy()
        for g, d in zip(self.heavy, self.ways[way], strict=True):
            able[self.instance.arrays.group.of == g] = np.arange(self.instance.devices) == d
        return able

    def at(self, way: int, source: int, target: int) -> float:
        """What the block takes at least with a way, between two devices, −1 for no end."""
        return float(self.least[way, max(source, 0), max(target, 0)])

    def cheapest(self, price: Floats) -> tuple[float, Floats]:
        """What the light ones cost where that is cheapest, and what devices hold of them then."""
        return _cheapest(self.light_sizes, self.light_able, price)

    def refine(self, way: int, source: int, target: int, stop: Longs) -> bool:
        """Try everything that is left of a way between two devices, −1 for no end; whether that is new."""
        key = way, source, target
        if key in self.known or stop[0] != 0:
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
        found, ended = exhaust(*given, math.inf, _STEPS, stop, device, start, flow_start)
        if math.isfinite(found):
            self.known[key] = Piece(device.tolist(), start.tolist(), flow_start.tolist(), found)
        if ended:
            part[:] = np.maximum(part, rounded_down(found, found, n + flows) if math.isfinite(found) else math.inf)
        return True


@dataclass(frozen=True)
class PricedPath:
    """The shortest path at some prices, (D,) by unit of memory."""

    price: Floats
    value: float  #: What no schedule ends before.
    entries: list[tuple[int, int, int, int]]  #: Of every block its number, the way, and the devices of its ends.
    held: Floats  #: (D,) What devices hold.
    #: For every block, by the devices of its ends, the shortest path through it, but for what its table says.
    besides: list[Floats]


class PricedChain:
    """A chain, and what of the problem is not in it: what is left out is paid for, and takes no time."""

    def __init__(self, chain: Chain, whole: MakespanInstance, left_out: Iterable[int]) -> None:
        self.chain, self.whole = chain, whole
        self.limit = np.where(np.isfinite(whole.most_held), whole.most_held, 0.0)
        self.limited: Bools = np.isfinite(whole.most_held)
        out = sorted(left_out)
        group = whole.arrays.group.of
        self.out_groups = sorted({int(group[v]) for v in out})
        sizes = np.bincount(group[out], whole.arrays.memory[out], len(whole.sizes))
        self.out_sizes: Floats = sizes[self.out_groups].astype(np.float64)
        self.out_able = whole.by_class(whole.able)[self.out_groups]
        self.tables: dict[int, BlockTable] = {}

    def fill(self, monitor: Monitor, stop: Longs) -> bool:
        """Make all tables, before anything else; whether it was not told to stop."""
        different = dict.fromkeys(self.chain.alike)
        for number in different:
            block = self.chain.blocks[number]
            size = len(different) * self.whole.devices * len(block.operators)
            if monitor.stopping or stop[0] != 0:
                return False
            self.tables[number] = BlockTable(block, max(1, min(_WAYS, _WORK // max(1, size))), stop)
        return True

    def table(self, number: int) -> BlockTable:
        """Of a block."""
        return self.tables[self.chain.alike[number]]

    def piece(self, number: int, way: int, source: int, target: int) -> Piece | None:
        """The schedule of an entry, if there is one."""
        return self.table(number).known.get((way, source, target))

    def loose(self) -> Iterator[tuple[list[int], float, bool]]:
        """Devices and sizes of what is in no table: classes that are left out, and light ones together by devices."""
        for able, size in zip(self.out_able, self.out_sizes.tolist(), strict=True):
            yield np.flatnonzero(able).tolist(), size, True
        light: dict[tuple[int, ...], float] = {}
        for number in self.chain.alike:
            table = self.tables[number]
            for able, size in zip(table.light_able, table.light_sizes.tolist(), strict=True):
                where = tuple(np.flatnonzero(able).tolist())
                light[where] = light.get(where, 0.0) + size
        yield from ((list(where), size, False) for where, size in light.items())

    def path(self, price: Floats) -> PricedPath:
        """The shortest path at prices by unit of memory, (D,), 0 where there is no limit."""
        chain, rows, instance = self.chain, self.chain.rows, self.chain.instance
        time, memory = instance.arrays.time, instance.arrays.memory
        own = [np.zeros(1)]
        own += [time[s, row] + price[row] * memory[s] for s, row in zip(chain.separators, rows[1:-1], strict=True)]
        own.append(np.zeros(1))
        picks, best, floors, light = {}, {}, {}, {}
        for number, table in self.tables.items():
            cost = table.least + (table.held @ price)[:, None, None]
            floors[number], light[number] = table.cheapest(price)
            picks[number], best[number] = cost.argmin(axis=0), cost.min(axis=0)
        steps = [best[a][np.ix_(*self._places(k))] + floors[a] for k, a in enumerate(chain.alike)]
        forward, backward = [own[0]], [own[-1]]
        for k, step in enumerate(steps):
            forward.append((forward[-1][:, None] + step).min(axis=0) + own[k + 1])
        for k in range(len(steps) - 1, -1, -1):
            backward.append((steps[k] + backward[-1][None, :]).min(axis=1) + own[k])
        backward.reverse()
        entries, j = [], 0
        out_floor, held = _cheapest(self.out_sizes, self.out_able, price)
        paid, total = float(price @ self.limit), float(forward[-1][0]) + out_floor
        rounding = _ROUNDING * (total + paid) if math.isfinite(total) else 0.0
        for k in range(len(steps) - 1, -1, -1):
            a = chain.alike[k]
            i = int((forward[k] + steps[k][:, j]).argmin())
            source, target = rows[k][i], rows[k + 1][j]
            way = int(picks[a][max(source, 0), max(target, 0)])
            entries.append((k, way, source, target))
            held = held + self.tables[a].held[way] + light[a]
            if source >= 0:
                held[source] += memory[chain.blocks[k].entry]
            j = i
        besides = [
            forward[k][:, None] + backward[k + 1][None, :] + (floors[a] + out_floor - paid - rounding)
            for k, a in enumerate(chain.alike)
        ]
        return PricedPath(price, total - paid - rounding, entries[::-1], held, besides)

    def through(self, path: PricedPath, number: int) -> Floats:
        """(ways, devices, devices) The shortest path through every entry of a block, at the prices of a path."""
        table, (first, last) = self.table(number), self._places(number)
        priced = table.least[:, first][:, :, last] + (table.held @ path.price)[:, None, None]
        found: Floats = priced + path.besides[number]
        return found

    def _places(self, number: int) -> tuple[list[int], list[int]]:
        """In tables, of the devices of both ends of a block."""
        first, last = self.chain.rows[number : number + 2]
        return [max(d, 0) for d in first], [max(d, 0) for d in last]

    def refine(self, path: PricedPath, stop: Longs) -> bool:
        """Try everything for the entries of a path; whether some were new."""
        new = False
        for k, way, source, target in path.entries:
            new |= self.table(k).refine(way, source, target, stop)
        return new

    def ascend(self, start: Floats, goal: float, steps: int, monitor: Monitor, stop: Longs) -> PricedPath:
        """The path at the best prices met, by steps towards what is overfull, as long as ``goal`` is more."""
        scale = np.where(self.limited & (self.limit > 0), self.limit, 1.0)
        now, direction = start, np.zeros(len(scale))
        top, length, failed = self.path(now), 1.0, 0
        for _ in range(steps):
            found = self.path(now)
            if self.refine(found, stop):
                found = self.path(now)
            if found.value > top.value:
                top, failed = found, 0
            else:
                failed += 1
            if monitor.stopping or stop[0] != 0 or length < 1e-3 or top.value >= goal:
                break
            if failed >= 8:
                now, length, failed, direction, found = top.price, length / 2, 0, 0.0 * direction, top
            excess = np.where(self.limited, (found.held - self.limit) / scale, 0.0)
            excess = np.where((now <= 0) & (excess < 0), 0.0, excess)
            direction = excess + 0.5 * direction
            square = float(direction @ direction)
            if square <= 0:
                break
            step = length * max(goal - found.value, 1e-6 * goal) / square
            now = np.where(self.limited, np.maximum(0.0, now + step * direction / scale), 0.0)
        return top


def _cheapest(sizes: Floats, able: Bools, price: Floats) -> tuple[float, Floats]:
    """What classes cost where that is cheapest, and what devices hold of them then."""
    held = np.zeros(len(price))
    if not len(sizes):
        return 0.0, held
    each = np.where(able, price[None, :], math.inf)
    np.add.at(held, each.argmin(axis=1), sizes)
    return float(sizes @ each.min(axis=1)), held


def binds(instance: MakespanInstance) -> bool:
    """Whether some device cannot hold everything."""
    total = float(instance.arrays.memory.sum())
    return bool((instance.most_held < rounded_up(total, total, instance.count)).any())
