"""Annealing pieces along a chain, against all states of small ones."""

from __future__ import annotations

import itertools
import math

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.makespan.pieces import PieceArrays, anneal_pieces
from partita.engines.kernels.random import generator

STOP = np.zeros(1, dtype=np.int64)


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
    )


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
    return total if (used <= p.limit).all() else math.inf


def test_against_all_states() -> None:
    """The best state that fits is met, the value is that of the state, and none is made up where nothing fits."""
    fits = tight = 0
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
            assert worth(p, node.tolist(), chosen.tolist(), home.tolist()) == best
    assert fits >= 30
    assert tight >= 15
