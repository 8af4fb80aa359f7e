"""Plans where memory couples blocks, by annealing which piece of its table every block takes.

The programs of ``solvers.priced`` are hard where many devices are full, and know only entries near to the best path at
the best prices. Here every pair of devices has the entries that are best at a few multiples of these prices; what the
search takes is searched through, and it goes on until all it takes is known (``kernels.makespan.pieces``). What waits
beside the chain for one separator takes its turn there, too (``solvers.guests``). Blocks of equal parts,
or that are too large to try everything, have schedules that are annealed with memory at these prices instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.arrays import Floats, Longs
from partita.engines.kernels.makespan.lists import schedule
from partita.engines.kernels.makespan.pieces import PieceArrays, anneal_pieces
from partita.engines.kernels.random import generator
from partita.problems.makespan.bounds.priced import PricedChain, PricedPath
from partita.problems.makespan.bounds.tables import Piece
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.local_search import priced_state
from partita.problems.makespan.problem import MakespanPlan
from partita.problems.makespan.solvers.entries import Chosen, Entry, held_inside
from partita.problems.makespan.solvers.guests import Guests

#: Multiples of the prices at which entries are taken, and how many for each pair of devices and multiple.
_PRICES, _EACH = (0.0, 0.3, 0.6, 1.0, 1.5, 2.5), 10
#: Temperatures as shares of the length at the start and the end, in turn. Where moving on is dear, searches that begin
#: cold end in many places, and hot ones more often in the same.
_COOLED = ((0.01, 0.0003), (0.04, 0.001))
#: What a unit too much costs at first, by the largest price or the length by unit, how that grows where nothing fits,
#: and how often; searches for what is to be known, and how much longer the last one is.
_RATE, _GROWTH, _TIMES, _TURNS, _LAST = 4.0, 5.0, 6, 8, 10
#: By how much the shortest path through an entry may be longer than the shortest one; how much longer schedules of
#: equal parts are annealed once they are taken.
_FAR, _LONGER = 1.08, 12


@dataclass(frozen=True)
class Pieces:
    """What a search took: of every block an entry, devices of what is left out, and the length of all."""

    length: float
    chosen: list[Chosen]
    homes: list[int]


class _Made:
    """A schedule of a block of equal parts; one made at a price on memory is annealed again once it is taken."""

    def __init__(self, piece: Piece, again: Callable[[], Piece] | None = None) -> None:
        self.piece, self._again = piece, again

    def anneal(self) -> None:
        """Longer than at first, once."""
        if self._again is not None:
            self.piece, self._again = self._again(), None


def _made(instance: MakespanInstance, price: Floats, stop: Longs) -> _Made:
    """A schedule with memory at a price (D,)."""
    room = instance.room()

    def annealed(longer: int) -> tuple[float, Piece]:
        device, order = priced_state(instance, price, seed=longer, longer=longer, stop=stop)
        length = float(schedule(instance.arrays, device, order, True, math.inf, room))
        held = np.bincount(device, instance.arrays.memory, instance.devices)
        return length + float(held @ price), Piece(
            device.tolist(), room.start.tolist(), room.flow_start.tolist(), length
        )

    first = annealed(1)
    return _Made(first[1], lambda: min(first, annealed(_LONGER), key=lambda found: found[0])[1])


class PieceSearch:
    """Searches one chain from a path at some prices on.

    Each begins anew, so that a few of them end in unlike places; with equal parts each goes on where the last one
    ended.

    Same seed, same pieces, unless told to stop.
    """

    def __init__(
        self, chain: PricedChain, path: PricedPath, guests: Guests, seed: int, *, threads: int, stop: Longs
    ) -> None:
        self.chain, self.price, self.guests = chain, path.price, guests
        self.first, self.entries = tuple(path.entries), list(path.entries)
        self.draws, self.times, self.searches = generator(seed), _RATE, 0
        self.kinds = {a: number for number, a in enumerate(dict.fromkeys(chain.chain.alike))}
        #: Ways by kind and devices of the ends; of equal parts the numbers of what is ``made``.
        self.pool: dict[tuple[int, int, int], list[int]] = {}
        self.made: dict[tuple[int, int, int], list[_Made]] = {}
        rows = chain.chain.rows
        for k, a in enumerate(chain.chain.alike):
            near = chain.through(path, k).min(axis=0) <= _FAR * path.value
            for i, s in enumerate(rows[k]):
                for j, t in enumerate(rows[k + 1]):
                    if near[i, j]:
                        self.pool.setdefault((a, s, t), [])
        self._make(threads, stop)
        for a in self.kinds:
            if not chain.tables[a].finds:
                continue
            tables = self._priced(a)
            for (kind, s, t), ways in self.pool.items():
                if kind == a:
                    ways += _near(tables, s, t)
        for k, way, s, t in self.entries:
            key = chain.chain.alike[k], s, t
            if key not in self.made and way not in self.pool[key]:
                self.pool[key].append(way)

    def _priced(self, kind: int) -> list[Floats]:
        """What the entries of a table take at every multiple of the prices."""
        return [self.chain.tables[kind].priced(factor * self.price) for factor in _PRICES]

    def _make(self, threads: int, stop: Longs) -> None:
        """Schedules of blocks of equal parts."""

        def made(key: tuple[int, int, int]) -> None:
            if stop[0] == 0:
                instance = self.chain.tables[key[0]].block.at(*key[1:])
                self.made[key] = [_made(instance, factor * self.price, stop) for factor in _PRICES]
                self.pool[key] = list(range(len(_PRICES)))

        keys = [key for key in self.pool if not self.chain.tables[key[0]].finds]
        with ThreadPoolExecutor(max(1, threads)) as pool:
            list(pool.map(made, keys))

    def learn(self, plan: MakespanPlan) -> None:
        """Take the blocks of equal parts of a schedule of the chain's problem for what equal blocks may do.

        Others may have their ends where that schedule has them.
        """
        chain, problem = self.chain.chain, self.chain.chain.instance.problem
        for k, block in enumerate(chain.blocks):
            placed = [plan.operators[problem.operators[v].id] for v in block.operators]
            begun = placed[0].end if block.entry >= 0 else 0.0
            length = placed[-1].start - begun if block.exit >= 0 else max(one.end for one in placed) - begun
            ids = [problem.flows[f].id for _, _, f in block.edges if f >= 0]
            piece = Piece(
                [one.device for one in placed],
                [max(0.0, one.start - begun) for one in placed],
                [plan.flows[i].start - begun if i in plan.flows else 0.0 for i in ids],
                length,
            )
            s, t = placed[0].device if block.entry >= 0 else -1, placed[-1].device if block.exit >= 0 else -1
            if self.chain.table(k).finds:
                if (chain.alike[k], s, t) not in self.pool:
                    self.pool[chain.alike[k], s, t] = _near(self._priced(chain.alike[k]), s, t)
                continue
            own = self.made.setdefault((chain.alike[k], s, t), [])
            if not any(one.piece.device == piece.device and one.piece.length <= length for one in own):
                own.append(_Made(piece))
                self.pool[chain.alike[k], s, t] = list(range(len(own)))

    def search(self, costs: Floats, moves: int, stop: Longs) -> Pieces | None:
        """The best met in about so many moves, or a few times that; None if nothing fits, or told to stop.

        ``costs`` (left out, D) are those of what is left out, infinite where it cannot be.
        """
        chain = self.chain
        home: Longs = costs.argmin(axis=1).astype(np.int64)
        if not self.made:
            self.entries = list(self.first)
        cooled = _COOLED[self.searches % len(_COOLED)] if not self.made else _COOLED[0]
        self.searches += 1
        for turn in range(_TURNS + 1):
            last = turn == _TURNS
            longer = moves * (_LAST if last else 1)
            found, pieces, chosen = self._annealed(costs, home, Cooling(*cooled, longer), stop, known=last)
            if math.isinf(found) or stop[0] != 0:
                return None
            self.entries = [(k, *pieces[x][1:]) for k, x in enumerate(chosen.tolist())]
            for k, way, s, t in self.entries:
                own = self.made.get((chain.chain.alike[k], s, t))
                if own is None:
                    chain.table(k).refine(way, s, t, self.price, stop)
                elif not last:
                    own[way].anneal()
        rows, taken = chain.chain.rows, list[Chosen]()
        for k, way, s, t in self.entries:
            own = self.made.get((chain.chain.alike[k], s, t))
            entry = Entry(k, way, rows[k].index(s), rows[k + 1].index(t), s, t)
            taken.append(Chosen(entry, piece=own[way].piece if own else None))
        return Pieces(float(found), taken, home.tolist())

    def _annealed(
        self, costs: Floats, home: Longs, cooled: Cooling, stop: Longs, *, known: bool
    ) -> tuple[float, list[tuple[int, int, int, int]], Longs]:
        """The least length met, the pieces that there are, and which of these every block takes then."""
        chain, alike, devices = self.chain, self.chain.chain.alike, self.chain.whole.devices
        p, pieces = self._arrays(costs, known=known)
        where = {piece: number for number, piece in enumerate(pieces)}
        node = np.array([devices, *(t for _, _, _, t in self.entries[:-1]), devices], dtype=np.int64)
        ends = p.kind, node[:-1], node[1:]
        taken = [where.get((alike[k], way, s, t), -1) for k, way, s, t in self.entries]
        chosen: Longs = np.where(np.array(taken) >= 0, taken, p.first[ends])
        if (chosen >= p.last[ends]).any():
            return math.inf, pieces, chosen
        size = float(p.length[chosen].sum() + p.time[np.arange(1, len(node) - 1), node[1:-1]].sum())
        cooling, found = cooled.times(size), math.inf
        for _ in range(_TIMES):
            rate = self.times * max(float(self.price.max()), size / float(chain.whole.arrays.memory.sum()))
            found = float(anneal_pieces(p, rate, node, chosen, home, cooling, self.draws, stop))
            if found < math.inf or stop[0] != 0:
                break
            self.times *= _GROWTH
        return found, pieces, chosen

    def _arrays(self, costs: Floats, *, known: bool) -> tuple[PieceArrays, list[tuple[int, int, int, int]]]:
        """What is annealed, if asked of what is ``known``, and of every piece its kind, way and devices of its ends."""
        chain, instance, devices = self.chain, self.chain.chain.instance, self.chain.whole.devices
        first = np.zeros((len(self.kinds), devices + 1, devices + 1), dtype=np.int64)
        last, pieces = first.copy(), list[tuple[int, int, int, int]]()
        length, held, reads = list[float](), list[Floats](), list[list[int]]()
        for (a, s, t), ways in self.pool.items():
            at = self.kinds[a], s % (devices + 1), t % (devices + 1)
            first[at] = len(pieces)
            table = chain.tables[a]
            for way in ways:
                own = self.made.get((a, s, t))
                piece = own[way].piece if own else table.known.get((way, s, t))
                least = table.at(way, s, t) if own is None else own[way].piece.length
                if math.isfinite(least) and (piece is not None or not (known or (way, s, t) in table.known)):
                    pieces.append((a, way, s, t))
                    length.append(least)
                    reads.append(self.guests.reads(table.block, piece, t))
                    held.append(table.held[way] if piece is None else held_inside(table.block, piece))
            last[at] = len(pieces)
        nodes = len(chain.chain.blocks) + 1
        able, time, memory = np.zeros((nodes, devices), dtype=np.bool_), np.zeros((nodes, devices)), np.zeros(nodes)
        inner = list(chain.chain.separators)
        able[1:-1], memory[1:-1] = instance.able[inner], instance.arrays.memory[inner]
        time[1:-1] = np.where(instance.able[inner], instance.arrays.time[inner], 0.0)
        return (
            PieceArrays(
                kind=np.array([self.kinds[a] for a in chain.chain.alike], dtype=np.int64),
                first=first,
                last=last,
                length=np.array(length),
                held=np.array(held).reshape(-1, devices),
                reads=np.array(reads, dtype=np.int64).reshape(len(pieces), -1),
                able=able,
                time=time,
                memory=memory,
                size=chain.out_sizes,
                cost=costs,
                limit=chain.whole.arrays.limit,
                price=self.price,
                guests=self.guests.arrays,
            ),
            pieces,
        )


def _near(tables: Iterable[Floats], source: int, target: int) -> list[int]:
    """Ways between two devices that are among the best of some table."""
    return sorted({w for costs in tables for w in _least(costs[:, max(source, 0), max(target, 0)])})


def _least(costs: Floats) -> list[int]:
    """Where a few of the least costs are, if finite."""
    few = np.arange(len(costs)) if len(costs) <= _EACH else np.argpartition(costs, _EACH)[:_EACH]
    return [int(w) for w in few if math.isfinite(costs[w])]
