"""Blocks of equal parts, such as the heads of attention: only how many of them are placed in which way matters.

Without a few *hubs* (and its ends) such a block falls into parts, equal but for their names. Let hubs and ends have
devices, T the time between the ends, and let part k be placed in pattern p(k). Every device works for its parts one by
one, from the earliest that one of them can start there to the latest that one can end, and so do its links with what
parts send and receive; and no part's chain takes longer than T. Each of these says T >= Σ_k r(p(k)) + c for what a
pattern takes r, its work there, and what passes before and after it c. So with weights w >= 0 that add up to 1, and
prices µ on memory, T and what the parts hold come to at least w · c + count · min_p (w · r(p) + µ · held(p)), for any
weights and prices. The least over all patterns is found operator by operator (``kernels.makespan.patterns``). With
weights fixed, all that matters of a pattern is how its memory is divided.

What passes before and after a device's work counts only if there is some. So ways say as well on which devices parts
are at all, their *support*. Where these are too many, large ones are one: then what passes there counts for the few
devices for which that is least.

Parts are known by the *core* of a block, the hubs and ends that they have edges to. Where all of them lead to one hub,
what follows that one is added.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Sequence

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs
from partita.engines.kernels.makespan.ways import cheapest_ways, longest_chains
from partita.ground.rounding import SUMMED
from partita.problems.makespan.bounds.patterns import Parts, Patterns
from partita.problems.makespan.bounds.tables import BlockTable
from partita.problems.makespan.instance import MakespanInstance, labels
from partita.problems.makespan.separators import Block

#: Most ways of hubs and supports.
_SUPPORTS = 4_096


class PartsTable(BlockTable):
    """A block of equal parts: its ways are those of its hubs with supports of parts, which are paid for together."""

    def __init__(self, block: Block, instance: MakespanInstance, parts: Parts, stop: Longs) -> None:
        group = instance.arrays.group.of
        self.parts, self.count = parts, len(parts.rows)
        # Entries that are the same with devices renumbered are looked at one by one.
        same = np.append(np.arange(instance.devices), -1)[None]
        super().__init__(block, stop, instance, [int(group[v]) for v in parts.hubs], same)
        hubs = len(self.ways)
        self.patterns = Patterns(instance, parts, max(1, _SUPPORTS // max(1, hubs)))
        many = len(self.patterns.supports)
        #: Of hubs alone: (h, D) what they hold, and (h, D or 1, D or 1) chains.
        self._held, self._plain = self.held, self.least
        #: (ways,) The support of each.
        self.support: Longs = np.tile(np.arange(many), hubs)
        self._find_cores(stop)
        self.ways, self.held = np.repeat(self.ways, many, axis=0), np.repeat(self.held, many, axis=0)
        self.least = self._spread(self._chains, self._plain)
        #: So many rows: the place in ``_chains``, and (m,) what a part takes by how its memory is divided.
        self.looked = 0
        self._place, self._takes = np.zeros(64, dtype=np.int64), np.zeros((64, len(self.patterns.held)))
        self._fresh: set[int] = set()
        #: Entries may be looked at in several threads, rows are added by one.
        self._adding = threading.Lock()
        #: Of every place looked at its rows, and (m, operators of a part) devices of the last patterns.
        self._rows: dict[int, list[int]] = {}
        self._picked: dict[int, Longs] = {}

    def _find_cores(self, stop: Longs) -> None:
        """What has edges to parts, and what chains of a core take by support."""
        instance, hubs, patterns = self.instance, list(self.parts.hubs), self.patterns
        near = patterns.sources | patterns.targets
        hub = self._last_hub()
        #: Operators that are on devices in a core: hubs, and whether either end is.
        self._core = [v for v in hubs if v in near] if hub >= 0 else hubs
        last = self._exit = self.exit if hub < 0 else -1
        group = instance.arrays.group.of
        choices = list(itertools.product(*(instance.choices[int(group[v])] for v in self._core)))
        ways: Longs = np.array(choices, dtype=np.int64).reshape(len(choices), len(self._core))
        shape = len(ways), self.least.shape[1], self.least.shape[2] if last >= 0 else 1
        #: (s, cores) Chains by support.
        self._chains = np.empty((len(patterns.supports), math.prod(shape)))
        heavy = np.array([group[v] for v in self._core], dtype=np.int64)
        inside = [v for row in self.parts.rows for v in row]
        for support, found in zip(patterns.supports, self._chains, strict=True):
            able, least = instance.able.copy(), np.zeros(shape)
            able[inside] &= support
            longest_chains(instance.arrays, able, instance.ordered, heavy, ways, self.entry, last, stop, least)
            found[:] = least.ravel() * (1.0 - SUMMED)
        outside = np.any((patterns.held > 0) & ~patterns.supports[:, None], axis=2)
        #: (s, m) How memory can be divided on a support.
        self._inside: Bools = np.logical_not(outside)
        #: (h, D or 1, D or 1) The core of hubs and ends, and what is added to it.
        number = {tuple(row): k for k, row in enumerate(ways.tolist())}
        columns = [hubs.index(v) for v in self._core]
        of_hubs = np.array([number[tuple(row)] for row in self.ways[:, columns].tolist()], dtype=np.int64)
        sources, targets = np.arange(shape[1]), np.arange(self.least.shape[2]) if last >= 0 else np.zeros(1, np.int64)
        self._of = np.ravel_multi_index(
            np.broadcast_arrays(of_hubs[:, None, None], sources[None, :, None], targets[None, None, :]), shape
        )
        self._of = np.broadcast_to(self._of, self.least.shape)
        more = np.zeros(self.least.shape) if hub < 0 else self._after(hub)
        self._more: Floats = np.broadcast_to(more, self.least.shape)

    def _last_hub(self) -> int:
        """The hub to which all parts lead and which comes before all that they have no edges to; −1 for none."""
        near, instance = self.patterns.sources | self.patterns.targets, self.instance
        hub = next(iter(self.patterns.targets)) if len(self.patterns.targets) == 1 else -1
        if hub not in self.parts.hubs or (self.entry >= 0 and self.entry not in near):
            return -1
        behind = {hub}
        for v in instance.order:
            if any(u in behind for u, _ in instance.before[v]):
                behind.add(v)
        far = {*self.parts.hubs, self.exit} - {-1} - near
        return hub if far <= behind and not (self.patterns.sources & behind) else -1

    def _after(self, hub: int) -> Floats:
        """(h, 1, D or 1) What follows a hub, beyond the least over devices of all that is not in a core."""
        instance, hubs = self.instance, self.parts.hubs
        found, time = (
            np.zeros((len(self.ways), 1, self.least.shape[2])),
            np.where(instance.able, instance.arrays.time, math.inf),
        )
        plain = labels(instance.arrays, instance.ordered, time)[1][hub]
        plain = np.where(np.isfinite(plain), plain, 0.0)
        for row, way in zip(found, self.ways.tolist(), strict=True):
            d = way[hubs.index(hub)]
            for target in range(row.shape[1]):
                here = time.copy()
                fixed = dict(zip(hubs, way, strict=True)) | ({self.exit: target} if self.exit >= 0 else {})
                for v, at in fixed.items():
                    here[v, :at] = here[v, at + 1 :] = math.inf
                row[0, target] = labels(instance.arrays, instance.ordered, here)[1][hub, d] - plain[d]
        return np.maximum(0.0, found) * (1.0 - SUMMED)

    def _spread(self, cores: Floats, plain: Floats) -> Floats:
        """(ways, D or 1, D or 1) From (s, cores), and what hubs and ends take at least whatever the support."""
        found = np.maximum(cores[:, self._of] + self._more, plain)
        return np.ascontiguousarray(found.swapaxes(0, 1)).reshape(-1, *plain.shape[1:])

    @property
    def small(self) -> bool:
        return True

    @property
    def finds(self) -> bool:
        return False

    def begin(self) -> None:
        self._fresh = set()

    def _light(self, price: Floats) -> Floats:
        """(s,) What the memory of all parts costs at least by support."""
        found: Floats = self.count * np.where(self._inside, self.patterns.held @ price, math.inf).min(axis=1)
        return found

    def _priced(self, price: Floats) -> tuple[Floats, Floats]:
        """Cores (s, cores), and hubs and ends (h, D or 1, D or 1), with all that parts hold paid for."""
        light, many = self._light(price), self.looked
        found, place = self._chains + light[:, None], self._place[:many]
        least = (self._takes[:many] + self.patterns.held @ price).min(axis=1, initial=math.inf)
        np.maximum.at(found.reshape(-1), place, self.count * least)
        return found, self._plain + light.min()

    def priced(self, price: Floats) -> Floats:
        found: Floats = self._spread(*self._priced(price)) + (self.held @ price)[:, None, None]
        return found

    def cheapest(self, price: Floats, visits: Floats, asks: Floats) -> tuple[Floats, Longs]:
        cores, plain = self._priced(price)
        support = cores.argmin(axis=0)
        cost = np.maximum(cores.min(axis=0)[self._of] + self._more, plain)
        best, way = np.empty(cost.shape[1:]), np.empty(cost.shape[1:], dtype=np.int64)
        given = self._held @ price, self._held * asks, visits, self.entry >= 0, self.exit >= 0
        cheapest_ways(cost, *given, best, way)
        of = np.take_along_axis(self._of, way[None], axis=0)[0]
        return best, way * len(cores) + support[of]

    def _at(self, way: int, source: int, target: int) -> tuple[int, tuple[int, int, int], int]:
        """The support of an entry, its hubs and ends, and its core."""
        many = len(self._chains)
        entry = way // many, max(source, 0), max(target, 0)
        return way % many, entry, int(self._of[entry])

    def holds(self, way: int, source: int, target: int, price: Floats) -> Floats:
        support, entry, core = self._at(way, source, target)
        each, light = self.patterns.held @ price, self._light(price)
        best = max(self._plain[entry] + light.min(), self._chains[support, core] + self._more[entry] + light[support])
        costs = np.where(self._inside[support], each, math.inf)
        for takes in self.weighed(way, source, target):
            if self.count * float((takes + each).min()) > best:
                costs = takes + each
                best = self.count * float(costs.min())
        found: Floats = self.held[way] + self.count * self.patterns.held[int(costs.argmin())]
        return found

    def refine(self, way: int, source: int, target: int, price: Floats, stop: Longs, most: float = math.inf) -> bool:
        """Find out more of a way between two devices, and of other supports as long as they are cheaper at prices."""
        support, entry, core = self._at(way, source, target)
        each, values = self.patterns.held @ price, self._chains[:, core] + self._light(price)
        for s in range(len(values)):
            for row in self._rows.get(s * self._chains.shape[1] + core, ()):
                values[s] = max(values[s], self.count * float((self._takes[row] + each).min()))
        new, least = False, self._plain[entry] + float(self._light(price).min()) - self._more[entry]
        while self._look(support, entry, core, price, stop):
            new = True
            row = self._rows[support * self._chains.shape[1] + core][-1]
            values[support] = max(values[support], self.count * float((self._takes[row] + each).min()))
            support = int(values.argmin())
            if values[support] <= least:
                break
        return new

    def _look(self, support: int, entry: tuple[int, int, int], core: int, price: Floats, stop: Longs) -> bool:
        """Find out more of a core; whether that is new."""
        place = support * self._chains.shape[1] + core
        with self._adding:
            if place in self._fresh or stop[0] != 0 or math.isinf(self._chains[support, core]):
                return False
            self._fresh.add(place)
        way = self.ways[entry[0] * len(self._chains)].tolist()
        fixed = {v: d for v, d in zip(self.parts.hubs, way, strict=True) if v in self._core}
        fixed |= {v: d for v, d in ((self.entry, entry[1]), (self._exit, entry[2])) if v >= 0}
        takes, picked = self.patterns.least(fixed, support, price)
        with self._adding:
            if self.looked == len(self._place):
                self._place, self._takes = np.tile(self._place, 2), np.tile(self._takes, (2, 1))
            row = self.looked
            self._place[row], self._takes[row] = place, takes
            # Others may read it from now on.
            self.looked = row + 1
            self._rows.setdefault(place, []).append(row)
        self._picked[place] = picked
        return True

    def weighed(self, way: int, source: int, target: int) -> list[Floats]:
        """(m,) What a part of an entry takes, of every time that was looked at."""
        support, entry, core = self._at(way, source, target)
        rows = self._rows.get(support * self._chains.shape[1] + core, ())
        return [self._takes[row] + self._more[entry] / self.count for row in rows]

    def placed(self, way: int, source: int, target: int, divided: Sequence[int]) -> list[int]:
        """Devices of the block's operators, each part with its memory divided in one way."""
        device = [max(source, 0)] + [max(target, 0)] * (self.instance.count - 1)
        for v, d in zip(self.parts.hubs, self.ways[way].tolist(), strict=True):
            device[v] = d
        support, _, core = self._at(way, source, target)
        picked = self._picked.get(support * self._chains.shape[1] + core)
        for row, m in zip(self.parts.rows, divided, strict=True):
            for v, d in zip(row, (self.patterns.example if picked is None else picked)[m].tolist(), strict=True):
                device[v] = d
        return device
