"""Annealing pieces along a chain, against all states of small ones."""

from __future__ import annotations

import itertools
import math

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.makespan.pieces import GuestArrays, PieceArrays, anneal_pieces
from partita.engines.kernels.random import generator

STOP = np.zeros(1, dtype=np.int64)


def guests(seed: int, draws: np.random.Generator) -> GuestArrays:
    """Up to two items that wait for the first separator, and are read in the second or the third block."""
    count = seed % 3
    apart = 1.0 - np.eye(2)
    return GuestArrays(
        source=1,
        item=draws.permutation(2)[:count].astype(np.int64),
        block=np.sort(draws.integers(1, 3, count)),
        reader=draws.integers(0, 2, count),
        time=draws.integers(0, 5, (count, 2)).astype(np.float64),
        sends=draws.integers(1, 15, (count, 2, 2)) * apart,
        gives=draws.integers(1, 15, (count, 2, 2)) * apart,
        after=draws.integers(0, 9, (count, 2, 3)).astype(np.float64),
        serial=draws.integers(0, 2, 2).astype(np.bool_),
    )


def chain(seed: int) -> PieceArrays:
    """Three blocks of two kinds between two separators, two devices, up to two pieces for each pair, and two items."""
    draws = np.random.default_rng(seed)
    first, pieces = np.zeros((2, 3, 3), dtype=np.int64), 0
    last = first.copy()
    for at in np.ndindex(2, 3, 3):
        first[at] = pieces
        pieces += int(draws.integers(1, 3))
        last[at] = pieces
    able = np.zeros((4, 2), dtype=np.bool_)
    able[1:3] = True
    return PieceArrays(
        kind=np.array([0, 1, 0]),
        first=first,
        last=last,
        length=draws.integers(1, 20, pieces).astype(np.float64),
        held=draws.integers(0, 6, (pieces, 2)).astype(np.float64),
        able=able,
        time=draws.integers(0, 5, (4, 2)).astype(np.float64),
        memory=np.array([0.0, 1.0, 2.0, 0.0]),
        size=np.array([2.0, 1.0]),
        cost=np.array([[0.0, 3.0], [0.0, math.inf if seed % 2 else 4.0]]),
        limit=np.array([9.0, 8.0 + seed % 3]),
        price=np.array([1.0, 0.5]),
        reads=draws.integers(0, 2, (pieces, 2)),
        guests=guests(seed, draws),
    )


def waited(p: PieceArrays, node: list[int], chosen: list[int], home: list[int]) -> float:
    """For how long blocks wait for guests, what they are sent and give passing in their order."""
    g, now, waits, source = p.guests, 0.0, 0.0, math.inf
    ports = dict.fromkeys(itertools.product("oi", range(2)), 0.0)

    def sent(a: int, b: int, ready: float, takes: float) -> float:
        used = [port for port, serial in zip((("o", a), ("i", b)), g.serial, strict=True) if serial]
        ends = max([ready, *(ports[port] for port in used)]) + takes
        ports.update(dict.fromkeys(used, ends))
        return ends

    for k, piece in enumerate(chosen):
        now += p.time[k, node[k]] if k else 0.0
        source = now if k == g.source else source
        now += p.length[piece]
        for m in np.flatnonzero(g.block == k):
            has, d, r = source, home[g.item[m]], p.reads[piece, g.reader[m]]
            if d != node[g.source]:
                has = sent(node[g.source], d, has, g.sends[m, node[g.source], d])
            has += g.time[m, d]
            if d != r:
                has = sent(d, r, has, g.gives[m, d, r])
            waits += max(0.0, has + g.after[m, r, node[k + 1]] - now)
            now = max(now, has + g.after[m, r, node[k + 1]])
    return waits


def worth(p: PieceArrays, node: list[int], chosen: list[int], home: list[int]) -> float:
    """The length of a state, infinite where it does not fit."""
    used = p.held[chosen].sum(axis=0)
    total = float(p.length[chosen].sum())
    for k in (1, 2):
        used[node[k]] += p.memory[k]
        total += p.time[k, node[k]]
    for item, d in enumerate(home):
        used[d] += p.size[item]
        total += p.cost[item, d]
    total += waited(p, node, chosen, home)
    return total if (used <= p.limit).all() else math.inf


def test_against_all_states() -> None:
    """The best state that fits is met, the value is that of the state, and none is made up where nothing fits."""
    fits = tight = late = 0
    for seed in range(60):
        p = chain(seed)
        best = loose = math.inf
        for a, b in itertools.product(range(2), repeat=2):
            node = [2, a, b, 2]
            choices = [range(*(end[p.kind[k], node[k], node[k + 1]] for end in (p.first, p.last))) for k in range(3)]
            for row in itertools.product(*choices):
                for home in itertools.product(range(2), repeat=2):
                    best = min(best, worth(p, node, list(row), list(home)))
                    loose = min(loose, worth(p._replace(limit=p.limit + 99), node, list(row), list(home)))
        node, home = np.array([2, 0, 0, 2]), np.zeros(2, dtype=np.int64)
        chosen = p.first[p.kind, node[:-1], node[1:]].copy()
        found = anneal_pieces(p, 50.0, node, chosen, home, Cooling(30.0, 0.3, 6_000), generator(seed), STOP)
        assert found == best, seed
        if math.isfinite(best):
            fits += 1
            tight += best > loose
            late += waited(p, node.tolist(), chosen.tolist(), home.tolist()) > 0
            assert worth(p, node.tolist(), chosen.tolist(), home.tolist()) == best
    assert fits >= 30
    assert tight >= 15
    assert late >= 10
