"""Plans where memory couples blocks, by annealing which piece of its table every block takes.

The programs of ``solvers.priced`` are hard where many devices are full, and know only entries near to the best path at
the best prices. Here every pair of devices has the entries that are best at a few multiples of these prices; what the
search takes is searched through, and it goes on until all it takes is known (``kernels.makespan.pieces``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.arrays import Floats, Longs
from partita.engines.kernels.makespan.pieces import PieceArrays, anneal_pieces
from partita.engines.kernels.random import generator
from partita.problems.makespan.bounds.priced import PricedChain, PricedPath
from partita.problems.makespan.solvers.entries import Chosen, Entry, held_inside

#: Multiples of the prices at which entries are taken, and how many for each pair of devices and multiple.
_PRICES, _EACH = (0.0, 0.3, 0.6, 1.0, 1.5, 2.5), 10
#: Temperatures as shares of the length; what a unit too much costs at first, by the largest price or the length by
#: unit, how that grows where nothing fits, and how often; searches for what is to be known, and how much longer the
#: last one is.
_HOT, _COLD, _RATE, _GROWTH, _TIMES, _TURNS, _LAST = 0.01, 0.0003, 4.0, 5.0, 6, 8, 10


@dataclass(frozen=True)
class Pieces:
    """What a search took: of every block an entry, devices of what is left out, and the length of all."""

    length: float
    chosen: list[Chosen]
    homes: list[int]


class PieceSearch:
    """Searches one chain from a path at some prices on; each goes on where the last one ended.

    Same seed, same pieces, unless told to stop.
    """

    def __init__(self, chain: PricedChain, path: PricedPath, seed: int) -> None:
        self.chain, self.price, self.entries = chain, path.price, list(path.entries)
        self.draws, self.times = generator(seed), _RATE
        self.kinds = {a: number for number, a in enumerate(dict.fromkeys(chain.chain.alike))}
        #: Ways by kind and devices of the ends.
        self.pool: dict[tuple[int, int, int], list[int]] = {}
        rows = chain.chain.rows
        for k, a in enumerate(chain.chain.alike):
            for s in rows[k]:
                for t in rows[k + 1]:
                    self.pool.setdefault((a, s, t), [])
        for a in self.kinds:
            tables = [chain.tables[a].priced(factor * self.price) for factor in _PRICES]
            for (kind, s, t), ways in self.pool.items():
                if kind == a:
                    ways += sorted({w for costs in tables for w in _least(costs[:, max(s, 0), max(t, 0)])})
        for k, way, s, t in self.entries:
            mine = self.pool[chain.chain.alike[k], s, t]
            if way not in mine:
                mine.append(way)

    def search(self, costs: Floats, moves: int, stop: Longs) -> Pieces | None:
        """The best met in about so many moves, or a few times that; None if nothing fits, or told to stop.

        ``costs`` (left out, D) are those of what is left out, infinite where it cannot be.
        """
        chain = self.chain
        home: Longs = costs.argmin(axis=1).astype(np.int64)
        for turn in range(_TURNS + 1):
            last = turn == _TURNS
            found, pieces, chosen = self._annealed(costs, home, moves * (_LAST if last else 1), stop, known=last)
            if math.isinf(found) or stop[0] != 0:
                return None
            self.entries = [(k, *pieces[x][1:]) for k, x in enumerate(chosen.tolist())]
            for k, way, s, t in self.entries:
                chain.table(k).refine(way, s, t, self.price, stop)
        rows = chain.chain.rows
        entries = [Entry(k, w, rows[k].index(s), rows[k + 1].index(t), s, t) for k, w, s, t in self.entries]
        return Pieces(float(found), [Chosen(entry, ()) for entry in entries], home.tolist())

    def _annealed(
        self, costs: Floats, home: Longs, moves: int, stop: Longs, *, known: bool
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
        cooling, found = Cooling(_HOT * size, _COLD * size, moves), math.inf
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
        for (a, s, t), ways in self.pool.items():
            at = self.kinds[a], s % (devices + 1), t % (devices + 1)
            first[at] = len(pieces)
            table = chain.tables[a]
            ways = [w for w in ways if math.isfinite(table.at(w, s, t)) and table.known.get((w, s, t), not known)]
            pieces += [(a, way, s, t) for way in ways]
            last[at] = len(pieces)
        held = [held_inside(chain, *piece) for piece in pieces]
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
                length=np.array([chain.tables[a].at(*rest) for a, *rest in pieces]),
                held=np.array([np.zeros(devices) if own is None else own for own in held]).reshape(-1, devices),
                able=able,
                time=time,
                memory=memory,
                size=chain.out_sizes,
                cost=costs,
                limit=chain.whole.arrays.limit,
                price=self.price,
            ),
            pieces,
        )


def _least(costs: Floats) -> list[int]:
    """Where a few of the least costs are, if finite."""
    few = np.arange(len(costs)) if len(costs) <= _EACH else np.argpartition(costs, _EACH)[:_EACH]
    return [int(w) for w in few if math.isfinite(costs[w])]
