"""Blocks of equal parts, such as the heads of attention: only how many of them are placed in which way matters.

Without a few *hubs* (and its ends) such a block falls into parts, equal but for their names. Let hubs and ends have
devices, T the time between the ends, and let part k be placed in pattern p(k). Every device works for its parts one by
one, from the earliest that one of them can start there to the latest that one can end, and so do its links with what
parts send and receive; and no part's chain takes longer than T. Each of these says T >= Σ_k r(p(k)) for what a pattern
takes r: its work there, and of what passes before and after it as much as its share of the parts, if it works there.
So with weights w >= 0 that add up to 1, and prices µ on memory, T and what the parts hold come to at least
count · min_p (w · r(p) + µ · held(p)), for any weights and prices. With weights fixed, all that matters of a pattern
is how its memory is divided.

Where few parts work, a mean of patterns pays little of what passes before and after a device's work. So ways say as
well on which devices parts are at all, their *support*: then no others matter, and what passes there is paid in full.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs
from partita.engines.kernels.makespan.parts import climb, find_takes
from partita.ground.dags import joined
from partita.ground.rounding import SUMMED
from partita.problems.makespan.bounds.tables import BlockTable
from partita.problems.makespan.instance import MakespanInstance, labels
from partita.problems.makespan.separators import Block

#: Edges inside a block from which an operator is a hub; fewest parts; most patterns of a part, ways of hubs, and of
#: hubs and supports.
_EDGES, _FEWEST, _PATTERNS, _WAYS, _SUPPORTS = 4, 3, 100_000, 1_024, 4_096
#: Turns of the ascent in weights, patterns that are added in each, and steps.
_TURNS, _NEAR, _STEPS = 7, 80, 80


@dataclass(frozen=True)
class Parts:
    """Equal parts of a block, by their operators in its problem, in equal order; hubs are all others but the ends."""

    rows: tuple[tuple[int, ...], ...]
    hubs: tuple[int, ...]


def parts_of(block: Block, instance: MakespanInstance) -> Parts | None:
    """The parts of a block, whose problem that is; None where there are few, or hubs and they have too many ways."""
    n, ends = instance.count, {v for k, v in enumerate((0, instance.count - 1)) if (block.entry, block.exit)[k] >= 0}
    if len(block.members) < _FEWEST or any(len(row) > 1 for row in instance.problem.classes()):
        return None
    degree = np.bincount([v for u, w, _ in instance.edges for v in (u, w)], minlength=n)
    hubs = {v for v in range(n) if v not in ends and degree[v] >= _EDGES}
    inside = [v for v in instance.order if v not in ends and v not in hubs]
    rooted = joined(n, [(u, v) for u, v, _ in instance.edges if {u, v}.isdisjoint(ends | hubs)])
    parts: dict[int, list[int]] = {}
    for v in inside:
        parts.setdefault(rooted[v], []).append(v)
    alike: dict[object, list[tuple[int, ...]]] = {}
    for row in parts.values():
        alike.setdefault(_key(instance, sorted(row)), []).append(tuple(sorted(row)))
    rows = max(alike.values(), key=lambda rows: len(rows) * len(rows[0]), default=[])
    if len(rows) < _FEWEST or instance.devices ** len(rows[0]) > _PATTERNS:
        return None
    mine = {v for row in rows for v in row} | ends
    rest = tuple(v for v in range(n) if v not in mine)
    return Parts(tuple(rows), rest) if instance.devices ** len(rest) <= _WAYS else None


def _key(instance: MakespanInstance, row: Sequence[int]) -> object:
    """Equal for equal parts."""
    place = {v: k for k, v in enumerate(row)}
    problem = instance.problem
    edges = sorted(
        (place.get(u, -1 - u), place.get(v, -1 - v), () if f < 0 else problem.flows[f].times)
        for u, v, f in instance.edges
        if u in place or v in place
    )
    return tuple((problem.operators[v].times, problem.operators[v].memory) for v in row), tuple(edges)


class Patterns:
    """All ways to place one part, and what it takes between fixed devices of all else."""

    def __init__(self, instance: MakespanInstance, parts: Parts, ways: int) -> None:
        """Hubs have so many ``ways``."""
        self.parts, self.row = parts, parts.rows[0]
        able = [np.flatnonzero(instance.able[v]).tolist() for v in self.row]
        #: (p, operators of a part) Devices.
        self.devices: Longs = np.array(list(itertools.product(*able)), dtype=np.int64).reshape(-1, len(self.row))
        held = np.zeros((len(self.devices), instance.devices))
        #: (p, D) Where a part is.
        self.on: Bools = np.zeros(held.shape, dtype=np.bool_)
        for k, v in enumerate(self.row):
            held[np.arange(len(held)), self.devices[:, k]] += instance.arrays.memory[v]
            self.on[np.arange(len(held)), self.devices[:, k]] = True
        found, of = np.unique(held, axis=0, return_inverse=True)
        #: (m, D) How a part's memory can be divided, and (p,) which of these it is.
        self.held: Floats = found
        self.of: Longs = of.reshape(-1)
        #: Whether supports are told apart; (s, D) supports, and of each the patterns in it.
        self.apart = ways * (2**instance.devices - 1) <= _SUPPORTS
        among = itertools.product((False, True) if self.apart else (True,), repeat=instance.devices)
        self.supports, self.within = list[Bools](), list[Longs]()
        for row in among:
            support: Bools = np.array(row, dtype=np.bool_)
            inside = np.flatnonzero(~(self.on & ~support).any(axis=1))
            if not self.apart or (support.any() and (self.on[inside].any(axis=0) == support).all()):
                self.supports.append(support)
                self.within.append(inside)

    def takes(self, instance: MakespanInstance, fixed: dict[int, int], support: int) -> Floats:
        """(patterns in a support, 5·D + 1) What each takes of what is limited.

        Hubs and ends are on these devices of their problem.
        """
        a, count, devices = instance.arrays, len(self.parts.rows), instance.devices
        time = np.where(instance.able, a.time, math.inf)
        for v, d in fixed.items():
            time[v, :d] = time[v, d + 1 :] = math.inf
        time[np.ix_(np.concatenate(self.parts.rows), ~self.supports[support])] = math.inf
        head, tail = labels(a, instance.ordered, time)
        #: What passes at least before and after what a device does, over all patterns.
        before, after = np.full((5, devices), math.inf), np.full((5, devices), math.inf)
        row = list(self.row)
        begun = np.where(np.isfinite(time), head - np.where(np.isfinite(time), time, 0.0), math.inf)
        before[0], after[0] = begun[row].min(axis=0), np.where(np.isfinite(time), tail, math.inf)[row].min(axis=0)
        inside, mine = set(row), set(row) | fixed.keys()
        rank = {v: place for place, v in enumerate(instance.order)}
        edges = sorted((e for e in instance.edges if e[0] in mine and e[1] in mine), key=lambda e: rank[e[1]])
        for u, v, f in edges:
            if f >= 0 and (u in inside or v in inside):
                left = time[v] + tail[v]
                for side, counts in ((1, True), (2, True), (3, u not in inside), (4, v not in inside)):
                    if counts:
                        sends = side % 2 == 1
                        before[side] = np.minimum(before[side], head[u] if sends else _elsewhere(head[u]))
                        after[side] = np.minimum(after[side], _elsewhere(left) if sends else left)
        around = before + after
        shares = np.where(np.isfinite(around), around, 0.0) / count
        where = np.full(instance.count, -1, dtype=np.int64)
        where[list(fixed)] = list(fixed.values())
        patterns = self.within[support]
        found = np.empty((len(patterns), 5 * devices + 1))
        find_takes(
            a,
            np.array(edges, dtype=np.int64).reshape(-1, 3),
            np.array(row, dtype=np.int64),
            self.devices[patterns],
            where,
            shares,
            np.where(np.isfinite(tail), tail, 0.0),
            count,
            found,
        )
        if self.apart:
            # Some part is on each device, and does what all that are there do.
            used, on = found[:, :-1] > 0, self.on[patterns]
            sure = np.array([used[on[:, d]].all(axis=0) for d in np.flatnonzero(self.supports[support])]).any(axis=0)
            serial = np.repeat(np.array([a.serial[k] for k in (0, 1, 2, 1, 2)]), devices)
            found[:, :-1] += np.where(sure & serial & ~used, shares.ravel(), 0.0)
        return found

    def cheapest(self, takes: Floats, price: Floats, support: int) -> tuple[Floats, Longs]:
        """(m,) What a part takes at good weights by how its memory is divided, and (m,) the pattern of each.

        Infinite where it cannot be divided so.
        """
        mine = self.within[support]
        cost = (self.held @ price)[self.of[mine]]
        weights = np.where(takes.max(axis=0) > 0, 1.0, 0.0)
        weights[-1] += 1e-9
        weights /= weights.sum()
        best, top, among = -math.inf, weights, np.zeros(0, dtype=np.int64)
        for turn in range(_TURNS):
            # Those that are cheapest at the weights met, each after all are looked at.
            each = takes @ weights + cost
            if each.min() > best:
                best, top = float(each.min()), weights
            near = np.argpartition(each, min(_NEAR, len(each)) - 1)[:_NEAR]
            among = np.union1d(among, near)
            weights = top.copy()
            climb(takes[among], cost[among], _STEPS, 0.5**turn, weights)
        each = takes @ top
        order = np.lexsort((each, self.of[mine]))
        divided, first = np.unique(self.of[mine][order], return_index=True)
        found, picked = np.full(len(self.held), math.inf), np.zeros(len(self.held), dtype=np.int64)
        found[divided] = each[order[first]] * (1.0 - SUMMED)
        picked[divided] = mine[order[first]]
        return found, picked


def _elsewhere(values: Floats) -> Floats:
    """(D,) The least on another device."""
    found, first = np.full(len(values), values.min()), int(values.argmin())
    found[first] = np.delete(values, first).min(initial=math.inf)
    return found


class PartsTable(BlockTable):
    """A block of equal parts: its ways are those of its hubs with supports of parts, which are paid for together."""

    def __init__(self, block: Block, instance: MakespanInstance, parts: Parts, stop: Longs) -> None:
        group = instance.arrays.group.of
        self.parts, self.count = parts, len(parts.rows)
        self.patterns = Patterns(instance, parts, instance.devices ** len(parts.hubs))
        # Entries that are the same with devices renumbered are looked at one by one.
        same = np.append(np.arange(instance.devices), -1)[None]
        super().__init__(block, stop, instance, [int(group[v]) for v in parts.hubs], same)
        hubs, many = len(self.ways), len(self.patterns.supports)
        #: (ways,) The support of each.
        self.support: Longs = np.tile(np.arange(many), hubs)
        self.ways, self.held = np.repeat(self.ways, many, axis=0), np.repeat(self.held, many, axis=0)
        inside, each = [v for row in parts.rows for v in row], np.zeros((many, *self.least.shape))
        for support, found in zip(self.patterns.supports, each, strict=True):
            able = instance.able.copy()
            able[inside] &= support
            self._find_chains(able, self.ways[::many], stop, found)
        self.least: Floats = each.swapaxes(0, 1).reshape(-1, *self.least.shape[1:])
        #: So many rows: the place in ``least`` of an entry, and (m,) what a part takes by how its memory is divided.
        self.looked = 0
        self._place, self._takes = np.zeros(64, dtype=np.int64), np.zeros((64, len(self.patterns.held)))
        self._fresh: set[tuple[int, int, int]] = set()
        #: Entries may be looked at in several threads, rows are added by one.
        self._adding = threading.Lock()
        #: Of every entry looked at its rows, and (m, operators of a part) devices of the last patterns.
        self._rows: dict[tuple[int, int, int], list[int]] = {}
        self.picked: dict[tuple[int, int, int], Longs] = {}

    @property
    def small(self) -> bool:
        return True

    def begin(self) -> None:
        self._fresh = set()

    def priced(self, price: Floats) -> Floats:
        found = super().priced(price)
        place, takes = self._place[: self.looked], self._takes[: self.looked]
        least = (takes + self.patterns.held @ price).min(axis=1, initial=math.inf)
        ways = place // math.prod(self.least.shape[1:])
        np.maximum.at(found.reshape(-1), place, (self.held @ price)[ways] + self.count * least)
        return found

    def cheapest(self, price: Floats, visits: Floats, asks: Floats) -> tuple[Floats, Longs]:
        return self._cheapest(self.priced(price), np.zeros(len(self.ways)), visits, asks)

    def holds(self, way: int, source: int, target: int, price: Floats) -> Floats:
        ends, each = (way, max(source, 0), max(target, 0)), self.patterns.held @ price
        best, found = float(super().priced(price)[ends]), super().holds(way, source, target, price)
        for takes in self.weighed(way, source, target):
            costs = takes + each
            value = float(self.held[way] @ price + self.count * costs.min())
            if value > best:
                best, found = value, self.held[way] + self.count * self.patterns.held[int(costs.argmin())]
        return found

    def refine(self, way: int, source: int, target: int, price: Floats, stop: Longs, most: float = math.inf) -> bool:
        key = way, source, target
        if key in self._fresh or stop[0] != 0 or math.isinf(self.at(*key)):
            return False
        self._fresh.add(key)
        fixed = dict(zip(self.parts.hubs, self.ways[way].tolist(), strict=True))
        fixed |= {v % self.instance.count: d for v, d in ((self.entry, source), (self.exit, target)) if d >= 0}
        support = int(self.support[way])
        takes, picked = self.patterns.cheapest(self.patterns.takes(self.instance, fixed, support), price, support)
        with self._adding:
            if self.looked == len(self._place):
                self._place, self._takes = np.tile(self._place, 2), np.tile(self._takes, (2, 1))
            row, self.looked = self.looked, self.looked + 1
            self._place[row] = np.ravel_multi_index((way, max(source, 0), max(target, 0)), self.least.shape)
            self._takes[row] = takes
            self._rows.setdefault(key, []).append(row)
        self.picked[key] = self.patterns.devices[picked]
        return True

    def weighed(self, way: int, source: int, target: int) -> list[Floats]:
        """(m,) What a part of an entry takes, of every time that was looked at."""
        return [self._takes[row] for row in self._rows.get((way, source, target), ())]

    def placed(self, way: int, source: int, target: int, divided: Sequence[int]) -> list[int]:
        """Devices of the block's operators, each part with its memory divided in one way."""
        device = [max(source, 0)] + [max(target, 0)] * (self.instance.count - 1)
        for v, d in zip(self.parts.hubs, self.ways[way].tolist(), strict=True):
            device[v] = d
        picked = self.picked.get((way, source, target))
        if picked is None:
            picked = self.patterns.devices[np.unique(self.patterns.of, return_index=True)[1]]
        for row, m in zip(self.parts.rows, divided, strict=True):
            for v, d in zip(row, picked[m].tolist(), strict=True):
                device[v] = d
        return device
