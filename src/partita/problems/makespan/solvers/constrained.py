"""Paths of entries that keep to the memory of devices together, for a bound that prices and programs come short of.

Prices and programs take means of paths that no one path comes to where few devices are full and moving on is dear.
Along a chain what devices hold adds up, so that the shortest path that keeps to limits is found by labels (Irnich and
Desaulniers, "Shortest path problems with resource constraints", 2005, §4). The best prices keep them few: a label whose
path cannot be below what is asked for goes (``partita.engines.kernels.makespan.constrained``).

What is left out of the chain takes no time there. Many of these, the *guests*, read one separator and are read in a
block after it, such as what decoder layers make of the encoder's result. Elsewhere they wait for its result, which its
device sends to one after the other, so that labels know on which devices they are, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs
from partita.engines.kernels.makespan.constrained import (
    BLOCK,
    GUEST,
    SOURCE,
    StageArrays,
    constrained_paths,
    new_labels,
)
from partita.ground.rounding import SUMMED
from partita.problems.makespan.bounds.priced import PricedChain, PricedPath
from partita.problems.makespan.bounds.tables import cheapest
from partita.problems.makespan.solvers.entries import Chosen, Entry, held_at_least, length
from partita.problems.makespan.solvers.guests import after_guest, guests_of
from partita.problems.makespan.thinning import Thinned

#: Most options of guests, beyond which all are left out.
_GUESTS = 20_000
#: Most labels, and what they come from; labels of a cell; cells for each device; what rounding may add, of all sums.
_LABELS, _PARENTS, _EACH, _CELLS, _ROUNDING = 1_000_000, 8_000_000, 4, 80, 10 * SUMMED


class ConstrainedPaths:
    """Some entries of a chain at the prices of a path, as the stages of labels; all others have longer paths."""

    def __init__(self, thinned: Thinned, chain: PricedChain, path: PricedPath, entries: Sequence[Entry]) -> None:
        self.chain, whole, devices = chain, thinned.whole, thinned.whole.devices
        source, guests = guests_of(thinned)
        classes = chain.interchangeable(path)
        first = np.arange(devices + 1)
        for row in classes:
            first[row] = row[0]
        if len(guests) * devices * (devices + 1) > _GUESTS:
            source, guests = -1, []
        by_block: dict[int, list[Entry]] = {}
        for entry in [*entries, *_images(chain, entries, first)] if classes else entries:
            by_block.setdefault(entry.number, []).append(entry)
        limited = np.flatnonzero(chain.limited)
        #: Of every option its entry, or a guest's class and its device.
        self.options: list[Entry | tuple[int, int]] = []
        rows = _Rows(devices, chain.limited)
        paid = _paid(chain, path)
        for number in range(len(chain.chain.blocks)):
            rows.stage(SOURCE if number == source else BLOCK)
            for entry in sorted(by_block.get(number, ()), key=lambda one: one.source):
                ends = entry.source % (devices + 1), entry.target % (devices + 1)
                rows.option(*ends, length(chain, entry), paid(entry), held_at_least(chain, entry))
                self.options.append(entry)
            for guest in (one for one in guests if one.block == number):
                rows.stage(GUEST)
                after, v = after_guest(thinned, guest), guest.operator
                for t in range(devices + 1):
                    for d in whole.choices[whole.arrays.group.of[v]]:
                        held = np.where(np.arange(devices) == d, whole.arrays.memory[v], 0.0)
                        cost = float(held @ path.price)
                        if math.isfinite(after[d, t]):
                            serial = whole.arrays.cost[guest.read][:, d]
                            rows.option(t, t, 0.0, cost, held, serial, float(after[d, t]))
                            self.options.append((int(whole.arrays.group.of[v]), d))
        gone = {int(whole.arrays.group.of[one.operator]) for one in guests}
        loose = np.array([g not in gone for g in chain.out_groups], dtype=np.bool_)
        floor = cheapest(chain.out_sizes[loose], chain.out_able[loose], path.price)[0]
        spent = float(path.price @ chain.limit)
        summed = abs(path.value) + 2.0 * (floor + spent + len(rows.kind) * float(path.visits.sum()))
        time = np.zeros(devices)
        if source >= 0:
            time = chain.chain.instance.arrays.time[chain.chain.separators[source]]
        last, widths = floor - spent - _ROUNDING * summed, _widths(chain, path)
        one_by_one = bool(whole.arrays.serial[1])
        self.stages = rows.arrays(last, time, one_by_one, chain.limit[limited], widths[limited], classes, first)
        self.each, self._width = _EACH, self.stages.width

    def refine(self, times: int) -> None:
        """Merge fewer labels: twice as many for each cell, and half as wide ones, in turn, so many times."""
        self.each = _EACH * 2 ** ((times + 1) // 2)
        self.stages = self.stages._replace(width=self._width / 2 ** (times // 2))

    def least(self, below: float, stop: Longs) -> float | None:
        """What no path takes less than, ``below`` at most; None where there is too much to look at, or told to stop."""
        none = np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=np.int64)
        found = self._run(below, True, *none, stop)
        return None if found < 0 else found

    def chosen(self, below: float, stop: Longs) -> tuple[list[Chosen], dict[int, int]] | None:
        """Entries of a short path and devices of guests' classes; None if none was found that takes less."""
        path = np.zeros(len(self.stages.kind), dtype=np.int64)
        found = self._run(below, False, np.empty((_PARENTS, 2), dtype=np.int64), path, stop)
        if not 0 <= found < below:
            return None
        options = [self.options[o] for o in path.tolist()]
        homes = dict(one for one in options if not isinstance(one, Entry))
        return [Chosen(one) for one in options if isinstance(one, Entry)], homes

    def _run(self, below: float, merged: bool, parent: Longs, path: Longs, stop: Longs) -> float:
        old, new = (new_labels(_LABELS, self.stages.held.shape[1]) for _ in range(2))
        return float(constrained_paths(self.stages, below, self.each, merged, old, new, parent, path, stop))


def _paid(chain: PricedChain, path: PricedPath) -> Callable[[Entry], float]:
    """What an entry takes with what it and its first end hold, and visits, paid for."""
    asks, instance = path.visits / chain.cap, chain.chain.instance
    cost = {a: table.priced(path.price) + table.paid(path.visits, asks) for a, table in chain.tables.items()}

    def paid(entry: Entry) -> float:
        found, d = (
            float(cost[chain.chain.alike[entry.number]][entry.way, max(entry.source, 0), max(entry.target, 0)]),
            0,
        )
        if entry.source >= 0:
            d, first = entry.source, chain.chain.blocks[entry.number].entry
            held = float(path.price[d] + asks[d]) * float(instance.arrays.memory[first])
            found += float(instance.arrays.time[first, d]) + held
        return found

    return paid


def _widths(chain: PricedChain, path: PricedPath) -> Floats:
    """(D,) Of cells; where all devices are limited, what is on the cheapest follows from the others."""
    width = np.where(chain.limited & (chain.limit > 0), chain.limit / _CELLS, math.inf)
    if chain.limited.all():
        width[int((path.price * chain.limit).argmin())] = math.inf
    return width


class _Rows:
    """Stages as they are made."""

    def __init__(self, devices: int, limited: Bools) -> None:
        self.devices, self.limited = devices, limited
        self.kind, self.ptr = list[int](), [0]
        self.ends, self.numbers = list[tuple[int, int]](), list[tuple[float, float, float]]()
        self.held, self.sends = list[Floats](), list[Floats]()

    def stage(self, kind: int) -> None:
        """Begin one."""
        self.kind.append(kind)
        self.ptr.append(self.ptr[-1])

    def option(
        self,
        begin: int,
        end: int,
        takes: float,
        paid: float,
        held: Floats,
        sends: Floats | None = None,
        after: float = 0,
    ) -> None:
        """Of the last stage."""
        self.ptr[-1] += 1
        self.ends.append((begin, end))
        self.numbers.append((takes, paid, after))
        self.held.append(held[self.limited])
        self.sends.append(np.zeros(self.devices) if sends is None else sends)

    def arrays(
        self,
        last: float,
        time: Floats,
        one_by_one: bool,
        limit: Floats,
        width: Floats,
        classes: Sequence[Sequence[int]],
        first: Longs,
    ) -> StageArrays:
        """All of them; paths end with so much."""
        begin, end = np.array(self.ends, dtype=np.int64).reshape(-1, 2).T.copy()
        takes, paid, after = np.array(self.numbers, dtype=np.float64).reshape(-1, 3).T.copy()
        rest = np.full((len(self.kind) + 1, self.devices + 1), math.inf)
        rest[-1, self.devices] = last
        for k in range(len(self.kind) - 1, -1, -1):
            mine = slice(self.ptr[k], self.ptr[k + 1])
            np.minimum.at(rest[k], begin[mine], paid[mine] + rest[k + 1, end[mine]])
            # Options that begin on the first of a class are those of all of them.
            rest[k] = np.minimum(rest[k], rest[k, first])
        return StageArrays(
            kind=np.array(self.kind, dtype=np.int64),
            ptr=np.array(self.ptr, dtype=np.int64),
            begin=begin,
            end=end,
            takes=takes,
            paid=paid,
            held=np.array(self.held).reshape(len(takes), len(limit)),
            sends=np.array(self.sends).reshape(len(takes), self.devices),
            after=after,
            time=np.where(np.isfinite(time), time, 0.0),
            one_by_one=one_by_one,
            rest=rest,
            limit=limit,
            width=width,
            alike_ptr=np.cumsum([0, *map(len, classes)]),
            alike=np.array([d for row in classes for d in row], dtype=np.int64),
            place=np.where(self.limited, np.cumsum(self.limited) - 1, -1),
            first=first,
        )


def _images(chain: PricedChain, entries: Sequence[Entry], first: Longs) -> Iterator[Entry]:
    """Of entries with devices renumbered those that are not among them, and begin on the first of a class."""
    known, rows = {(e.number, e.way, e.source, e.target) for e in entries}, chain.chain.rows
    looked: set[tuple[int, int, int, int]] = set()
    for entry in entries:
        if (entry.number, entry.way, entry.source, entry.target) in looked:
            continue
        for way, source, target in chain.table(entry.number).images(entry.way, entry.source, entry.target):
            key = entry.number, way, source, target
            looked.add(key)
            if key not in known and first[source] in (source, len(first) - 1):
                ends = rows[entry.number].index(source), rows[entry.number + 1].index(target)
                yield Entry(entry.number, way, *ends, source, target)
