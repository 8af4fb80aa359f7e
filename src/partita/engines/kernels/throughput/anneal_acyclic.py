"""Annealing of acyclic splits: items go to other stages, which are devices of a free split whose labels fall nowhere.

An item may go anywhere between the largest label of its predecessors and the smallest of its successors; two may change
places. Energies are beside the best split, and follow it. Source of the energy and the move: experiments for
maximum-throughput pipeline partitioning (pipelined inference, ICML 2024, §4, compares searches over orders).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.annealing import Cooling, Steps, anneal_by
from partita.engines.kernels.arrays import Ints, Longs, Words
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.graph_arrays import GraphArrays
from partita.engines.kernels.random import below, share
from partita.engines.kernels.rows import predecessors, successors
from partita.engines.kernels.throughput import split_energies as moves
from partita.engines.kernels.throughput.free_splits import FreeArrays, FreeState


class _Acyclic(NamedTuple):
    """What follows what beside a split, and the share of trials that exchange two items."""

    graph: GraphArrays
    split: moves.Energies
    swaps: float


@inlined
def _window(graph: GraphArrays, label: Ints, v: int, k: int) -> tuple[int, int]:
    """Blocks that v can be in while the others stay."""
    low, high = 0, k - 1
    for u in predecessors(graph, v):
        low = max(low, label[u])
    if low < k - 1:
        for w in successors(graph, v):
            high = min(high, label[w])
    return low, high


@inlined
def _adjacent(graph: GraphArrays, v: int, u: int) -> bool:
    """Whether one of two items precedes the other directly."""
    for w in successors(graph, v):
        if w == u:
            return True
    for w in predecessors(graph, v):  # noqa: SIM110 (compiled code knows no generators)
        if w == u:
            return True
    return False


@inlined
def _propose(c: _Acyclic, random: Words, trial: int, temperature: float) -> moves.SplitMove:
    a, graph, label = c.split.a, c.graph, c.split.s.label
    n, k = a.work.shape[0], a.kind_of.shape[0]
    v = below(random, n)
    old = int(np.int64(label[v]))
    low, high = _window(graph, label, v, k)
    if low >= high:
        return moves.no_move()
    if c.swaps == 0.0 or share(random) >= c.swaps:
        new = low + below(random, high - low)
        if new >= old:
            new += 1
        return moves.no_move() if a.work[v, a.kind_of[new]] == np.inf else moves.move_one(c.split, v, old, new)
    # Exchange two items, where loads are a matter of few large ones.
    u = below(random, n)
    new = int(np.int64(label[u]))
    if new == old or new < low or new > high:
        return moves.no_move()
    first, second = _window(graph, label, u, k)
    if old < first or old > second or _adjacent(graph, v, u):
        return moves.no_move()
    c.split.moves[0], c.split.goals[0], c.split.moves[1], c.split.goals[1] = v, new, u, old
    return moves.move_listed(c.split, old, new, 2)


@inlined
def _keep(c: _Acyclic, move: moves.SplitMove) -> None:
    moves.keep(c.split, move)
    if c.split.s.value[0] < c.split.ref[0]:
        moves.refer(c.split, c.split.s.value[0])


@inlined
def _undo(c: _Acyclic, move: moves.SplitMove) -> None:
    moves.undo(c.split, move)


_STEPS = Steps(_propose, _keep, _undo)


@compiled
def anneal(
    graph: GraphArrays,
    a: FreeArrays,
    s: FreeState,
    memory: moves.SplitMemory,
    exponent: int,
    swaps: float,
    cooling: Cooling,
    random: Words,
    stop: Longs,
) -> int:
    """Anneal from ``label``, at temperatures in units of the device that costs most in the best split.

    ``value`` is finite; it and ``best`` are updated. Returns the number of accepted trials.
    """
    if s.value[0] <= 0.0 or a.kind_of.shape[0] < 2:
        return 0
    c = _Acyclic(graph, moves.energies(a, s, memory, s.value[0], exponent), swaps)
    return anneal_by(c, _STEPS, cooling, random, stop)
