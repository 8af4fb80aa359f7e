"""Equal parts of a block, and what one takes between fixed devices of all else, by how its memory is divided.

See ``partita.problems.makespan.bounds.alike``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs
from partita.engines.kernels.makespan.parts import PartArrays, PartLimits, around_parts, sure_parts
from partita.engines.kernels.makespan.patterns import weigh_parts
from partita.ground.dags import joined
from partita.ground.rounding import SUMMED
from partita.problems.makespan.instance import MakespanInstance, labels
from partita.problems.makespan.separators import Block, comparable

#: Edges inside a block from which an operator is a hub; fewest parts; most choices that are looked at for a part; most
#: ways of hubs; chains of a part that are looked at.
_EDGES, _FEWEST, _CHOICES, _WAYS, _CHAINS = 4, 2, 100_000, 1_024, 24
#: Turns of the ascent in weights, and steps of each.
_TURNS, _STEPS = 12, 60


@dataclass(frozen=True)
class Parts:
    """Equal parts of a block, by their operators in its problem, in equal order; hubs are all others but the ends."""

    rows: tuple[tuple[int, ...], ...]
    hubs: tuple[int, ...]


def parts_of(block: Block, instance: MakespanInstance) -> Parts | None:
    """The parts of a block, whose problem that is, if they are most of it, and they and hubs have not too many ways."""
    n, ends = instance.count, {v for k, v in enumerate((0, instance.count - 1)) if (block.entry, block.exit)[k] >= 0}
    if len(block.members) < _FEWEST or any(len(row) > 1 for row in instance.problem.classes()):
        return None
    degree = np.bincount([v for u, w, _ in instance.edges for v in (u, w)], minlength=n)
    # What has many edges, or else what all others come before or after.
    found = _rows(instance, ends, {v for v in range(n) if degree[v] >= _EDGES} - ends)
    rows = found or _rows(instance, ends, {instance.order[k] for k in comparable(instance).tolist()} - ends)
    if (
        not rows
        or 2 * len(rows) * len(rows[0]) < len(block.members)
        or _Elimination(instance, rows[0]).choices > _CHOICES
    ):
        return None
    mine = {v for row in rows for v in row} | ends
    rest = tuple(v for v in range(n) if v not in mine)
    return Parts(tuple(rows), rest) if instance.devices ** len(rest) <= _WAYS else None


def _rows(instance: MakespanInstance, ends: set[int], hubs: set[int]) -> list[tuple[int, ...]]:
    """The most equal parts between ends and hubs, if these are enough."""
    inside = [v for v in instance.order if v not in ends and v not in hubs]
    rooted = joined(instance.count, [(u, v) for u, v, _ in instance.edges if {u, v}.isdisjoint(ends | hubs)])
    parts: dict[int, list[int]] = {}
    for v in inside:
        parts.setdefault(rooted[v], []).append(v)
    alike: dict[object, list[tuple[int, ...]]] = {}
    for row in parts.values():
        alike.setdefault(_key(instance, sorted(row)), []).append(tuple(sorted(row)))
    rows = max(alike.values(), key=lambda rows: len(rows) * len(rows[0]), default=[])
    return rows if len(rows) >= _FEWEST else []


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


class _Elimination:
    """In which order operators of a part go, the least neighbours first, and what that takes."""

    def __init__(self, instance: MakespanInstance, row: Sequence[int]) -> None:
        place = {v: k for k, v in enumerate(row)}
        edges = [(place[u], place[v]) for u, v, _ in instance.edges if u in place and v in place]
        near: list[set[int]] = [set() for _ in row]
        for a, b in edges:
            near[a].add(b)
            near[b].add(a)
        self.holders = [k for k, v in enumerate(row) if instance.arrays.memory[v] > 0]
        left, self.gone, self.scope = {*range(len(row))} - {*self.holders}, list[int](), list[list[int]]()
        while left:
            k = min(left, key=lambda k: (len(near[k]), k))
            left.discard(k)
            self.gone.append(k)
            self.scope.append(sorted(near[k]))
            for other in near[k]:
                near[other] |= near[k]
                near[other] -= {k, other}
        #: Choices of devices that are looked at.
        self.choices = sum(instance.devices ** (len(row) + 1) for row in self.scope)
        self.choices += instance.devices ** len(self.holders)
        when = {k: t for t, k in enumerate(self.gone)}
        last = len(self.gone)
        self.into = [min([when.get(k, last) for k in scope], default=last) for scope in self.scope]
        self.met = [min(when.get(a, last), when.get(b, last)) for a, b in edges]


class Patterns:
    """The ways to place one part, and what it takes between fixed devices of all else that it has edges to."""

    def __init__(self, instance: MakespanInstance, parts: Parts, supports: int) -> None:
        """So many ``supports`` are told apart, if that is more than a few."""
        self.instance, self.parts, self.row = instance, parts, list(parts.rows[0])
        place = {v: k for k, v in enumerate(self.row)}
        ways = _Elimination(instance, self.row)
        edges = [e for e in instance.edges if e[0] in place or e[1] in place]
        inner = [(place[u], place[v], f) for u, v, f in edges if u in place and v in place]
        reads = [(u, place[v], f) for u, v, f in edges if u not in place]
        gives = [(place[u], v, f) for u, v, f in edges if v not in place]
        #: Operators besides parts that these read, and that read them.
        self.sources, self.targets = {u for u, _, _ in reads}, {v for _, v, _ in gives}
        #: (K, D) Where a part's operators may be.
        self.able: Bools = instance.able[self.row]
        held, of = _divided(instance, [self.row[k] for k in ways.holders])
        #: (m, D) How a part's memory can be divided.
        self.held: Floats = held
        #: (m, K) Devices that divide it so.
        self.example: Longs = np.tile(self.able.argmax(axis=1), (len(held), 1))
        for k, digits in zip(
            ways.holders,
            _digits(instance.devices, len(ways.holders))[np.unique(of, return_index=True)[1][-len(held) :]].T,
            strict=True,
        ):
            self.example[:, k] = digits
        self._chains = list(itertools.islice(_chains(len(self.row), inner, reads, gives), _CHAINS))
        on = [
            np.array([[k in chain[s] for k in range(many)] for chain in self._chains], np.bool_).reshape(
                len(self._chains), many
            )
            for s, many in enumerate((len(self.row), len(inner), len(reads), len(gives)))
        ]
        wide = max(1, *map(len, ways.scope)) if ways.scope else 1
        self._part = PartArrays(
            row=np.array(self.row, dtype=np.int64),
            inner=np.array(inner, dtype=np.int64).reshape(-1, 3),
            reads=np.array(reads, dtype=np.int64).reshape(-1, 3),
            gives=np.array(gives, dtype=np.int64).reshape(-1, 3),
            holders=np.array(ways.holders, dtype=np.int64),
            of=of,
            gone=np.array(ways.gone, dtype=np.int64),
            scope=np.array([row + [-1] * (wide - len(row)) for row in ways.scope], dtype=np.int64).reshape(-1, wide),
            into=np.array(ways.into, dtype=np.int64),
            met=np.array(ways.met, dtype=np.int64),
            on_row=on[0],
            on_inner=on[1],
            on_reads=on[2],
            on_gives=on[3],
        )
        self._leads, self._comes = _led(instance.count, inner, reads, gives, len(self.row))
        self._support(supports)

    def _support(self, most: int) -> None:
        """Find the sets of devices that parts can be on."""
        devices = self.instance.devices
        #: (s, D) Supports, by their size; if ``few`` is not 0, the last one is for all that have at least so many.
        self.supports: Bools = np.zeros((0, devices), dtype=np.bool_)
        self.few = 1
        for size in range(1, devices + 1):
            sets = list(itertools.combinations(np.flatnonzero(self.able.any(axis=0)).tolist(), size))
            rows: Bools = np.zeros((len(sets), devices), dtype=np.bool_)
            for row, chosen in zip(rows, sets, strict=True):
                row[list(chosen)] = True
            rows = rows[[bool((self.able & row).any(axis=1).all()) for row in rows]]
            if len(self.supports) + len(rows) + (size < devices) > most:
                break
            self.supports, self.few = np.concatenate([self.supports, rows]), size + 1
        if self.few > devices:
            self.few = 0
        else:
            self.supports = np.concatenate([self.supports, np.ones((1, devices), dtype=np.bool_)])

    def least(self, fixed: Mapping[int, int], support: int, price: Floats) -> tuple[Floats, Longs]:
        """(m,) What a part takes at good weights by how its memory is divided, and (m, K) its devices for each.

        Infinite where it cannot be divided so. All else that parts have edges to is on ``fixed`` devices of the block's
        problem.
        """
        instance, part, count, devices = self.instance, self._part, len(self.parts.rows), self.instance.devices
        a, inside = instance.arrays, self.supports[support]
        time = np.where(instance.able, a.time, math.inf)
        where = np.full(instance.count, -1, dtype=np.int64)
        for v, d in fixed.items():
            time[v, :d] = time[v, d + 1 :] = math.inf
            where[v] = d
        time[np.ix_(np.concatenate(self.parts.rows), ~inside)] = math.inf
        head, tail = labels(a, instance.ordered, time)
        around = np.empty((5, devices))
        around_parts(a, part, time, head, tail, around)
        sure, maybe = np.zeros((5, devices), dtype=np.bool_), np.zeros((5, devices), dtype=np.bool_)
        last, devs = support == len(self.supports) - 1, np.flatnonzero(inside)
        few = self.few if last else 0
        sure_parts(part, self.able, where, self._leads, self._comes, devs, few, sure, maybe)
        used = np.isfinite(around)
        beside = np.zeros(len(self._chains))
        for j, (_, _, first, then) in enumerate(self._chains):
            beside[j] += sum(float(head[u, where[u]]) for u in (part.reads[e, 0] for e in first))
            for e in then:
                v = part.gives[e, 1]
                beside[j] += float(time[v, where[v]] + tail[v, where[v]])
        limits = PartLimits(np.where(used, around, 0.0), used, sure & used, maybe & used, few, beside)
        found, picked = np.empty(len(self.held)), np.zeros((len(self.held), len(self.row)), dtype=np.int64)
        given = a, part, limits, self.able, where, devs, count, self.held @ price
        weigh_parts(*given, _TURNS, _STEPS, found, picked)
        return found * (1.0 - SUMMED), picked


def _divided(instance: MakespanInstance, holders: Sequence[int]) -> tuple[Floats, Longs]:
    """(m, D) How the memory of some operators can be divided, and which of that (D ** h,) placements are, −1 for none.

    The device of the first one counts least.
    """
    devices = instance.devices
    digits = _digits(devices, len(holders))
    held, able = np.zeros((len(digits), devices)), np.ones(len(digits), dtype=np.bool_)
    for k, v in enumerate(holders):
        held[np.arange(len(held)), digits[:, k]] += instance.arrays.memory[v]
        able &= instance.able[v, digits[:, k]]
    found, of = np.unique(held[able], axis=0, return_inverse=True)
    placed = np.full(len(digits), -1, dtype=np.int64)
    placed[able] = of.reshape(-1)
    return found, placed


def _digits(devices: int, count: int) -> Longs:
    """(D ** count, count) Devices of so many operators, all ways; that of the first one counts least."""
    found: Longs = np.arange(devices**count)[:, None] // devices ** np.arange(count) % devices
    return found


_Edges = Sequence[tuple[int, int, int]]


def _chains(
    count: int, inner: _Edges, reads: _Edges, gives: _Edges
) -> Iterator[tuple[list[int], list[int], list[int], list[int]]]:
    """Chains of a part: the numbers of their operators, and of their edges of each kind."""
    after: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    ends: list[list[int]] = [[] for _ in range(count)]
    for e, (u, v, _) in enumerate(inner):
        after[u].append((e, v))
    for e, (u, _, _) in enumerate(gives):
        ends[u].append(e)

    def on(
        row: list[int], edges: list[int], first: list[int]
    ) -> Iterator[tuple[list[int], list[int], list[int], list[int]]]:
        for e in ends[row[-1]]:
            yield row, edges, first, [e]
        for e, v in after[row[-1]]:
            yield from on([*row, v], [*edges, e], first)
        if not (ends[row[-1]] or after[row[-1]]):
            yield row, edges, first, []

    for e, (_, v, _) in enumerate(reads):
        yield from on([v], [], [e])
    begun = {v for _, v, _ in (*inner, *reads)}
    for v in range(count):
        if v not in begun:
            yield from on([v], [], [])


def _led(count: int, inner: _Edges, reads: _Edges, gives: _Edges, many: int) -> tuple[Bools, Bools]:
    """(K, n) To which other operators flows lead from those of a part, and from which they come to them."""
    leads, comes = np.zeros((many, count), dtype=np.bool_), np.zeros((many, count), dtype=np.bool_)
    for k, v, f in gives:
        leads[k, v] |= f >= 0
    for u, k, f in reads:
        comes[k, u] |= f >= 0
    for _ in range(many):
        for u, v, f in inner:
            if f >= 0:
                leads[u] |= leads[v]
                comes[v] |= comes[u]
    return leads, comes
