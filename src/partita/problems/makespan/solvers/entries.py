"""Which entries of block tables to take so that all fits: the program of ``solvers.priced``, and its schedules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats
from partita.engines.kernels.makespan.lists import schedule
from partita.engines.mip.model import MixedProgram
from partita.problems.makespan.bounds.alike import PartsTable
from partita.problems.makespan.bounds.priced import PricedChain
from partita.problems.makespan.bounds.tables import Piece
from partita.problems.makespan.problem import MakespanPlan
from partita.problems.makespan.schedules import left_shifted
from partita.problems.makespan.separators import Block


@dataclass(frozen=True)
class Entry:
    """A block, a way of its table, and the devices of its ends, also by their places in their rows."""

    number: int
    way: int
    i: int
    j: int
    source: int
    target: int


@dataclass(frozen=True)
class Loose:
    """What is in no entry: its size, the devices that can have it, and what it costs there."""

    size: float
    able: Sequence[int]
    costs: Sequence[float]
    whole: bool  #: Whether it is on one of them.


def loose_of(chain: PricedChain) -> Iterator[Loose]:
    """What the tables of a chain say nothing of, for nothing."""
    for able, size, whole in chain.loose():
        yield Loose(size, able, [0.0] * len(able), whole)


def planned_of(chain: PricedChain, later: Floats) -> Iterator[Loose]:
    """What is left out of a chain, at (classes left out, devices) costs; the rest is in schedules of blocks."""
    for able, size, costs in zip(chain.out_able, chain.out_sizes.tolist(), later, strict=True):
        where = np.flatnonzero(able & np.isfinite(costs))
        yield Loose(size, where.tolist(), costs[where].tolist(), True)


def length(chain: PricedChain, entry: Entry) -> float:
    """What an entry takes at least, with its first end."""
    found = chain.table(entry.number).at(entry.way, entry.source, entry.target)
    if entry.source >= 0:
        found += float(chain.chain.instance.arrays.time[chain.chain.blocks[entry.number].entry, entry.source])
    return found


def held_at_least(chain: PricedChain, entry: Entry) -> Floats:
    """(D,) What the heavy ones of an entry and its first end hold."""
    own: Floats = chain.table(entry.number).held[entry.way].copy()
    if entry.source >= 0:
        own[entry.source] += chain.chain.instance.arrays.memory[chain.chain.blocks[entry.number].entry]
    return own


def held_inside(block: Block, piece: Piece) -> Floats:
    """(D,) What a schedule of a block holds, without its ends."""
    mine = [k for k, v in enumerate(block.operators) if v not in (block.entry, block.exit)]
    memory = block.instance.arrays.memory[[block.operators[k] for k in mine]]
    held = np.bincount([piece.device[k] for k in mine], memory, block.instance.devices)
    return held.astype(np.float64)


def held_by_schedule(chain: PricedChain, entry: Entry) -> Floats | None:
    """(D,) What all of an entry holds but its last end, by its schedule; None without one.

    Of blocks of equal parts without these.
    """
    if isinstance(chain.table(entry.number), PartsTable):
        return held_at_least(chain, entry)
    piece, block = chain.piece(entry.number, entry.way, entry.source, entry.target), chain.chain.blocks[entry.number]
    if piece is None:
        return None
    own = held_inside(block, piece)
    if entry.source >= 0:
        own[entry.source] += chain.chain.instance.arrays.memory[block.entry]
    return own


@dataclass(frozen=True)
class Chosen:
    """An entry of a solved program, and for each of its equal parts in which way its memory is divided."""

    entry: Entry
    parts: Sequence[int] = ()
    piece: Piece | None = None  #: Its schedule, where that is not in a table.


class EntriesProgram:
    """The shortest path of some entries, which hold so much, that fits with what is loose.

    Of a block of equal parts an entry says how many of them divide their memory in each way, as fractions.
    """

    def __init__(
        self,
        chain: PricedChain,
        entries: Sequence[Entry],
        held: Sequence[Floats],
        loose: Iterable[Loose],
        *,
        whole: bool = False,
    ) -> None:
        """``whole`` is for plans: parts are in one place each, which bounds do without."""
        self.chain, self.entries, self.model, self.whole = chain, entries, MixedProgram(), whole
        rows, model = chain.chain.rows, self.model
        nodes: list[list[list[tuple[int, float]]]] = [[[] for _ in row] for row in rows]
        self._full: list[list[tuple[int, float]]] = [[] for _ in range(chain.whole.devices)]
        #: Entries of equal blocks share what is said of their parts.
        same: dict[tuple[int, int, int, int], list[int]] = {}
        for x, (entry, own) in enumerate(zip(entries, held, strict=True)):
            model.add_binary()
            nodes[entry.number][entry.i].append((x, 1.0))
            nodes[entry.number + 1][entry.j].append((x, -1.0))
            self._hold(x, own)
            model.cost[x] = length(chain, entry)
            if isinstance(chain.table(entry.number), PartsTable):
                key = chain.chain.alike[entry.number], entry.way, entry.source, entry.target
                same.setdefault(key, []).append(x)
        self._parts = {x: (parts, mine) for mine in same.values() for parts in [self._shared(mine)] for x in mine}
        for row in nodes[1:-1]:
            for terms in row:
                model.add_row(terms, 0.0, 0.0)
        model.add_row(nodes[0][0], 1.0, 1.0)
        self._loose: list[tuple[Loose, list[int]]] = []
        for part in loose:
            found = []
            for d, cost in zip(part.able, part.costs, strict=True):
                y = model.add_binary(cost) if part.whole else model.add_continuous(upper=1.0, cost=cost)
                found.append(y)
                self._full[d].append((y, part.size))
            model.add_row([(y, 1.0) for y in found], 1.0, 1.0)
            self._loose.append((part, found))
        self._visits()
        for d in np.flatnonzero(chain.limited).tolist():
            # As shares of what there is.
            scale = float(chain.limit[d]) or 1.0
            model.add_row([(x, size / scale) for x, size in self._full[d]], upper=float(chain.limit[d]) / scale)

    def _visits(self) -> None:
        """What separators and heavy ones hold is where the path comes to, as in ``PricedChain``."""
        chain, model = self.chain, self.model
        memory = chain.chain.instance.arrays.memory
        for d in np.flatnonzero(np.isfinite(chain.cap)).tolist():
            comes, holds = [], []
            for x, entry in enumerate(self.entries):
                held = 0.0
                if d in (entry.source, entry.target):
                    held += float(chain.table(entry.number).held[entry.way, d])
                if entry.source == d:
                    held += float(memory[chain.chain.blocks[entry.number].entry])
                elif entry.target == d:
                    comes.append((x, 1.0))
                if held > 0:
                    holds.append((x, held / float(chain.cap[d])))
            if holds:
                used = model.add_binary()
                model.add_row([*holds, (used, -1.0)], upper=0.0)
                model.add_row([*comes, (used, -1.0)], lower=0.0)

    def _hold(self, x: int, held: Floats) -> None:
        for d in np.flatnonzero(held).tolist():
            self._full[d].append((x, float(held[d])))

    def _shared(self, same: list[int]) -> list[int]:
        """Equal entries of equal parts take their time together; the variables of these."""
        entry, model = self.entries[same[0]], self.model
        table = self.chain.table(entry.number)
        assert isinstance(table, PartsTable)
        ends = entry.way, entry.source, entry.target
        least, parts = table.at(*ends), []
        for x in same:
            model.cost[x] -= least
        weighed = table.weighed(*ends)
        # More than all can take, since bounds of programs need one.
        able: Bools = np.isfinite(sum(weighed, np.zeros(len(table.patterns.held))))
        most = max(least, table.count * max((float(takes[able].max()) for takes in weighed), default=0.0))
        time = model.add_continuous(upper=len(same) * most, cost=1.0)
        model.add_row([(time, 1.0), *((x, -least) for x in same)], lower=0.0)
        for held, may in zip(table.patterns.held, able, strict=True):
            many = table.count * len(same) if may else 0
            parts.append(model.add_count(many) if self.whole else model.add_continuous(upper=float(many)))
            self._hold(parts[-1], held)
        count = -float(table.count)
        model.add_row([*((x, count) for x in same), *((z, 1.0) for z in parts)], 0.0, 0.0)
        for takes in weighed:
            each = zip(parts, np.where(able, takes, 0.0).tolist(), strict=True)
            model.add_row([(time, 1.0), *((z, -t) for z, t in each)], lower=0.0)
        return parts

    def chosen(self, values: Floats) -> list[Chosen]:
        """The entries of a solution; equal ones have even shares of what their parts do."""
        found, dealt = [], dict[int, list[list[int]]]()
        for x, entry in enumerate(self.entries):
            if values[x] <= 0.5:
                continue
            row: list[int] = []
            if x in self._parts:
                parts, same = self._parts[x]
                if same[0] not in dealt:
                    taken = sum(bool(values[y] > 0.5) for y in same)
                    count = round(float(values[parts].sum()))
                    whole = np.floor(values[parts] + 1e-6).astype(np.int64)
                    for m in np.argsort(whole - values[parts])[: max(0, count - int(whole.sum()))]:
                        whole[m] += 1
                    cards = np.repeat(np.arange(len(parts)), whole).tolist()
                    dealt[same[0]] = [cards[k::taken] for k in range(taken)]
                row = dealt[same[0]].pop()
            found.append(Chosen(entry, row))
        return found

    def homes(self, values: Floats) -> list[int]:
        """Devices of what is loose and whole."""
        return [part.able[int(values[mine].argmax())] for part, mine in self._loose if part.whole]


def piece_of(chain: PricedChain, chosen: Chosen) -> Piece | None:
    """The schedule of an entry, of equal parts a list schedule of what they take least time with."""
    if chosen.piece is not None:
        return chosen.piece
    entry, table = chosen.entry, chain.table(chosen.entry.number)
    if not isinstance(table, PartsTable):
        return chain.piece(entry.number, entry.way, entry.source, entry.target)
    device = table.placed(entry.way, entry.source, entry.target, chosen.parts)
    instance = table.block.at(entry.source, entry.target)
    room = instance.room()
    found = schedule(instance.arrays, np.array(device, dtype=np.int32), instance.by_rank, True, np.inf, room)
    return Piece(device, room.start.tolist(), room.flow_start.tolist(), float(found))


def joined(chain: PricedChain, chosen: Iterable[Chosen]) -> MakespanPlan | None:
    """The schedule of blocks one after the other; None if one of them has none."""
    instance = chain.chain.instance
    device, start = [0] * instance.count, [0.0] * instance.count
    flow_start = [0.0] * len(instance.problem.flows)
    offset = 0.0
    for one in chosen:
        entry, block = one.entry, chain.chain.blocks[one.entry.number]
        piece = piece_of(chain, one)
        if piece is None:
            return None
        for v, at, begun in zip(block.operators, piece.device, piece.start, strict=True):
            if v != block.entry:
                device[v], start[v] = at, offset + begun
        for f, begun in zip((f for _, _, f in block.edges if f >= 0), piece.flow_start, strict=True):
            flow_start[f] = offset + begun
        offset += piece.length
        if block.exit >= 0:
            start[block.exit] = offset
            device[block.exit] = entry.target
            offset += float(instance.arrays.time[block.exit, entry.target])
    return left_shifted(instance, device, start, flow_start)
