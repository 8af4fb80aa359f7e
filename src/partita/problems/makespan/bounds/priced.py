"""Blocks of a chain with prices on memory: what every block takes, by where its largest operators are.

Memory couples the blocks between separators. Let the devices have prices µ >= 0 on what they hold. In any schedule
Σ µ(d) · (held(d) − memory(d)) is at most 0, so the makespan plus that is at most the makespan; and it is a sum over
separators and blocks. So with the least of every block between any two devices, its memory paid for, the shortest path
less Σ µ(d) · memory(d) is a bound for all prices, and what the path holds says how to change them.

Such a path need not move: a mean of paths that stay, each on another device, holds as little as one that moves from
each to the next, and has no transfers. So a separator on another device than the one before it, or the first one, is a
*visit*. What separators hold, and what is heavy in a block with an end there, fits a device, and is nothing without a
visit: it is at most the device's memory times its visits. With prices ν >= 0 on the share of its memory that this is,
and ν paid for every visit, that is a sum over separators and blocks, too.

Of a block the *heavy* operators, those that hold most, are placed in every way, and what is known of the block with
each is in a table: chains at first, and what trying everything says once the path asks for it. All others are paid for
where that is cheapest. Large blocks of equal parts have other tables (``partita.problems.makespan.bounds.alike``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import SUMMED, rounded_up
from partita.problems.makespan.bounds.alike import PartsTable
from partita.problems.makespan.bounds.patterns import parts_of
from partita.problems.makespan.bounds.tables import BlockTable, Piece, cheapest, heavy_of
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.separators import Chain
from partita.problems.makespan.symmetry import evened, interchangeable, renumberings

#: Ways to place what is heavy in a block, at most, and (operators · devices · ways) of all blocks.
_WAYS, _WORK = 4096, 10_000_000
#: Operators of a block above which equal parts are looked for.
_FINE = 14
#: What rounding may add, of all that is summed.
_ROUNDING = 10 * SUMMED
#: Steps of prices are for what is at most so much more than the most that was met.
_NEAR = 1.05
#: So much more of what is left to a goal is looked at in a block, for rounding.
MORE = 1.001


@dataclass(frozen=True)
class PricedPath:
    """The shortest path at some prices, (D,) by unit of memory."""

    price: Floats
    visits: Floats  #: (D,) What a visit of every device is paid.
    value: float  #: What no schedule ends before.
    entries: list[tuple[int, int, int, int]]  #: Of every block its number, the way, and the devices of its ends.
    held: Floats  #: (D,) What devices hold.
    missing: Floats  #: (D,) What of it asks for visits, as shares of what there is room for, less the visits.
    #: For every block, by the devices of its ends, the shortest path through it, but for what its table says.
    besides: list[Floats]


class PricedChain:
    """A chain, and what of the problem is not in it: what is left out is paid for, and takes no time."""

    def __init__(self, chain: Chain, whole: MakespanInstance, left_out: Iterable[int]) -> None:
        self.chain, self.whole = chain, whole
        self.limit = np.where(np.isfinite(whole.most_held), whole.most_held, 0.0)
        self.limited: Bools = np.isfinite(whole.most_held)
        #: What a device that is visited once may hold.
        self.cap: Floats = np.where(self.limited & (self.limit > 0), self.limit, math.inf)
        out = sorted(left_out)
        group = whole.arrays.group.of
        self.out_groups = sorted({int(group[v]) for v in out})
        sizes = np.bincount(group[out], whole.arrays.memory[out], len(whole.sizes))
        self.out_sizes: Floats = sizes[self.out_groups].astype(np.float64)
        self.out_able = whole.by_class(whole.able)[self.out_groups]
        self.tables: dict[int, BlockTable] = {}
        self.classes = interchangeable(whole)  #: Of devices that can change places, which have equal prices.

    def fill(self, monitor: Monitor, stop: Longs) -> bool:
        """Make all tables, before anything else; whether it was not told to stop."""
        different = dict.fromkeys(self.chain.alike)
        numbers = renumberings(self.whole.devices, self.classes)
        for number in different:
            block = self.chain.blocks[number]
            size = len(different) * self.whole.devices * len(block.operators)
            if monitor.stopping or stop[0] != 0:
                return False
            inner = block.at()
            parts = None if inner.count <= _FINE else parts_of(block, inner)
            heavy = heavy_of(block, inner, max(1, min(_WAYS, _WORK // max(1, size))))
            self.tables[number] = (
                PartsTable(block, inner, parts, stop) if parts else BlockTable(block, stop, inner, heavy, numbers)
            )
        return True

    def interchangeable(self, path: PricedPath) -> list[list[int]]:
        """Classes of devices that can change places on a path with its prices, too."""
        mixed = any(isinstance(table, PartsTable) for table in self.tables.values())
        same = [len({*path.price[row]}) == len({*path.visits[row]}) == 1 for row in self.classes]
        return [row for row, alike in zip(self.classes, same, strict=True) if alike and not mixed]

    def begin(self) -> None:
        """From now on look anew at what prices change."""
        for table in self.tables.values():
            table.begin()

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
            if isinstance(table, PartsTable):
                continue
            for able, size in zip(table.light_able, table.light_sizes.tolist(), strict=True):
                where = tuple(np.flatnonzero(able).tolist())
                light[where] = light.get(where, 0.0) + size
        yield from ((list(where), size, False) for where, size in light.items())

    def path(self, price: Floats, visits: Floats | None = None) -> PricedPath:
        """The shortest path at prices by unit of memory, (D,), 0 where there is no limit, and what visits are paid."""
        chain, rows, instance = self.chain, self.chain.rows, self.chain.instance
        time, memory = instance.arrays.time, instance.arrays.memory
        visits = np.zeros(len(price)) if visits is None else visits
        asks = visits / self.cap
        own = [np.zeros(1)]
        own += [
            time[s, row] + (price[row] + asks[row]) * memory[s]
            for s, row in zip(chain.separators, rows[1:-1], strict=True)
        ]
        own.append(np.zeros(1))
        best = {a: table.cheapest(price, visits, asks) for a, table in self.tables.items()}
        steps = [best[a][0][np.ix_(*self._places(k))] for k, a in enumerate(chain.alike)]
        forward, backward = [own[0]], [own[-1]]
        for k, step in enumerate(steps):
            forward.append((forward[-1][:, None] + step).min(axis=0) + own[k + 1])
        for k in range(len(steps) - 1, -1, -1):
            backward.append((steps[k] + backward[-1][None, :]).min(axis=1) + own[k])
        backward.reverse()
        entries, j = [], 0
        out_floor, held = cheapest(self.out_sizes, self.out_able, price)
        # What is paid for visits is taken off again, so that rounding is that of larger sums.
        paid, total = float(price @ self.limit), float(forward[-1][0]) + out_floor
        rounding = _ROUNDING * (total + paid + 2.0 * len(steps) * float(visits.sum())) if math.isfinite(total) else 0.0
        missing = np.zeros(len(price))
        for k in range(len(steps) - 1, -1, -1):
            a = chain.alike[k]
            i = int((forward[k] + steps[k][:, j]).argmin())
            source, target = rows[k][i], rows[k + 1][j]
            way = int(best[a][1][max(source, 0), max(target, 0)])
            entries.append((k, way, source, target))
            held = held + self.tables[a].holds(way, source, target, price)
            for d in {source, target} - {-1}:
                missing[d] += self.tables[a].held[way, d] / self.cap[d]
            if source >= 0:
                held[source] += memory[chain.blocks[k].entry]
                missing[source] += memory[chain.blocks[k].entry] / self.cap[source]
            if target not in (-1, source):
                missing[target] -= 1.0
            j = i
        besides = [
            forward[k][:, None] + backward[k + 1][None, :] + (out_floor - paid - rounding) for k in range(len(steps))
        ]
        return PricedPath(price, visits, total - paid - rounding, entries[::-1], held, missing, besides)

    def through(self, path: PricedPath, number: int) -> Floats:
        """(ways, devices, devices) The shortest path through every entry of a block, at the prices of a path."""
        table, (first, last) = self.table(number), self._places(number)
        cost = table.priced(path.price) + table.paid(path.visits, path.visits / self.cap)
        found: Floats = cost[:, first][:, :, last] + path.besides[number]
        return found

    def _places(self, number: int) -> tuple[list[int], list[int]]:
        """In tables, of the devices of both ends of a block."""
        first, last = self.chain.rows[number : number + 2]
        return [max(d, 0) for d in first], [max(d, 0) for d in last]

    def refine(self, path: PricedPath, stop: Longs, goal: float = math.inf) -> bool:
        """Try everything for the entries of a path, for schedules that end before a goal; whether some were new."""
        new = False
        for k, way, source, target in path.entries:
            table = self.table(k)
            most = (goal - path.value) * MORE + table.at(way, source, target)
            new |= table.refine(way, source, target, path.price, stop, most)
        return new

    def ascend(
        self, start: PricedPath, goal: float, steps: int, monitor: Monitor, stop: Longs, *, visits: bool = True
    ) -> PricedPath:
        """The path at the best prices met, from those of another, as long as ``goal`` is more.

        Steps go towards what is overfull, and with ``visits`` to what is visited too rarely for what it holds, which
        takes longer to come anywhere.
        """
        self.begin()
        scale = np.where(self.limited & (self.limit > 0), self.limit, 1.0)
        limited = np.concatenate([self.limited, np.isfinite(self.cap) & visits])
        now = np.concatenate([start.price * scale, start.visits])
        direction, half = np.zeros(len(now)), len(scale)

        def at(prices: Floats) -> PricedPath:
            return self.path(prices[:half] / scale, prices[half:])

        top, length, failed = at(now), 1.0, 0
        for _ in range(steps):
            found = at(now)
            if self.refine(found, stop, goal):
                found = at(now)
            if found.value > top.value:
                top, failed = found, 0
            else:
                failed += 1
            if monitor.stopping or stop[0] != 0 or length < 1e-3 or top.value >= goal:
                break
            if failed >= 8:
                now, found = np.concatenate([top.price * scale, top.visits]), top
                length, failed, direction = length / 2, 0, 0.0 * direction
            excess = np.where(limited, np.concatenate([(found.held - self.limit) / scale, found.missing]), 0.0)
            # A bound that is concave and does not know them apart has its best prices where they are equal.
            excess = np.concatenate([evened(excess[:half], self.classes), evened(excess[half:], self.classes)])
            excess = np.where((now <= 0) & (excess < 0), 0.0, excess)
            direction = excess + 0.5 * direction
            square = float(direction @ direction)
            if square <= 0:
                break
            step = length * max(min(goal, _NEAR * top.value) - found.value, 1e-6 * goal) / square
            now = np.where(limited, np.maximum(0.0, now + step * direction), now)
        return top


def binds(instance: MakespanInstance) -> bool:
    """Whether some device cannot hold everything."""
    total = float(instance.arrays.memory.sum())
    return bool((instance.most_held < rounded_up(total, total, instance.count)).any())
