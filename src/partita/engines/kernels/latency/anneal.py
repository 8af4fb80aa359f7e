"""Simulated annealing on placements: the latency is the energy, memory and the order of pieces are kept throughout.

A trial moves a group of operators of one slot, found breadth first, to the slot of a neighbour or to any other, with
all operators of their classes; it is refused if memory overflows or pieces would wait for each other in a circle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.annealing import Cooling, Steps, anneal_by, copy_into
from partita.engines.kernels.arrays import Ints, Longs, Words
from partita.engines.kernels.compiled import allocating_nothing, inlined
from partita.engines.kernels.latency.arrays import LatencyArrays, PlacementState
from partita.engines.kernels.latency.quotient import longest, relocate
from partita.engines.kernels.random import below
from partita.engines.kernels.rows import members_of, row_of
from partita.ground.rounding import SUMMED_FEW

#: Most operators of a group; classes come on top.
GROUP = 32


class _Trials(NamedTuple):
    """A placement, the weight of the time of all pieces, and a number above those of all trials before."""

    a: LatencyArrays
    s: PlacementState
    side: float
    stamp: int


class _GroupMove(NamedTuple):
    """So many operators have gone where ``goal`` said, which is then the way back; the latency then."""

    rise: float
    many: int
    latency: float


@inlined
def _energy(c: _Trials, latency: float) -> float:
    """The latency, and the weighted time that all pieces take together."""
    busy = 0.0
    for p in range(c.s.into.shape[0]):
        busy += c.s.into[p] + c.s.work[p] + c.s.out[p]
    return latency + c.side * busy


@inlined
def _slot_for(c: _Trials, random: Words, v: int) -> int:
    """Mostly the slot of a predecessor or reader of an operator; any other one where that is its own."""
    a, slot, slots = c.a, c.s.slot, c.s.into.shape[0]
    if below(random, 8) < 6:
        inner = a.graph.pred_ptr[v + 1] - a.graph.pred_ptr[v]
        degree = inner + a.graph.succ_ptr[v + 1] - a.graph.succ_ptr[v]
        if degree > 0:
            i = below(random, degree)
            w = a.graph.pred[a.graph.pred_ptr[v] + i] if i < inner else a.graph.succ[a.graph.succ_ptr[v] + i - inner]
            if slot[w] != slot[v]:
                return int(np.int64(slot[w]))
    return below(random, slots + 1)


@inlined
def _join(c: _Trials, ptr: Ints, others: Ints, u: int, at: int, mark: int, count: int, most: int) -> int:
    """List what an operator is next to in its slot and is not listed; how many are."""
    for w in row_of(ptr, others, u):
        if count < most and c.s.seen[w] != mark and c.s.slot[w] == at:
            c.s.seen[w] = mark
            c.s.moved[count] = w
            count += 1
    return count


@inlined
def _group(c: _Trials, random: Words, v: int, mark: int, stays: bool) -> int:
    """List an operator, often with others around it; unless they stay on their device, with their classes."""
    a, moved, at = c.a, c.s.moved, c.s.slot[v]
    moved[0] = v
    c.s.seen[v] = mark
    count, ways = 1, below(random, 8)
    if ways < 5:
        size, head = 1 + below(random, GROUP), 0
        while head < count and count < size:
            u = moved[head]
            head += 1
            if ways != 1:
                count = _join(c, a.graph.pred_ptr, a.graph.pred, u, at, mark, count, size)
            if ways != 2:
                count = _join(c, a.graph.succ_ptr, a.graph.succ, u, at, mark, count, size)
    if not stays:
        for i in range(count):
            group = a.group.of[moved[i]]
            for w in members_of(a.group, group):
                if c.s.seen[w] != mark:
                    c.s.seen[w] = mark
                    moved[count] = w
                    count += 1
    return count


@inlined
def _propose(c: _Trials, random: Words, trial: int, temperature: float) -> _GroupMove:
    a, s = c.a, c.s
    slots, pieces, each = s.into.shape[0], a.shape[2], a.shape[1] * a.shape[2]
    v = below(random, s.slot.shape[0])
    at, to = s.slot[v], _slot_for(c, random, v)
    device, piece = -1, 0
    if to < slots:
        device, piece = to // each, to % pieces
        to = device * each + a.part[v] * pieces + piece
    if to == at:
        return _GroupMove(np.inf, 0, 0.0)
    stays = at < slots and device == at // each
    count = _group(c, random, v, c.stamp + trial, stays)
    fits, bytes_ = True, 0.0
    for i in range(count):
        w = s.moved[i]
        s.goal[i] = slots if device < 0 else device * each + a.part[w] * pieces + piece
        bytes_ += a.mem[w]
        fits = fits and (device < 0 or a.acc[w] != np.inf)
    if not fits or (device >= 0 and not stays and s.held[device] + bytes_ > a.limit[0]):
        return _GroupMove(np.inf, 0, 0.0)
    for i in range(count):
        s.goal[i] = relocate(a, s, s.moved[i], s.goal[i])
    latency = longest(a, s)
    return _GroupMove(_energy(c, latency) - s.value[2], count, latency)


@inlined
def _keep(c: _Trials, move: _GroupMove) -> None:
    s = c.s
    s.value[1] = move.latency
    s.value[2] += move.rise
    if move.latency < s.value[0] * (1.0 - SUMMED_FEW):
        s.value[0] = move.latency
        copy_into(s.best, s.slot)


@inlined
def _undo(c: _Trials, move: _GroupMove) -> None:
    for i in range(move.many - 1, -1, -1):
        relocate(c.a, c.s, c.s.moved[i], c.s.goal[i])


_STEPS = Steps(_propose, _keep, _undo)


@allocating_nothing
def anneal(
    a: LatencyArrays, s: PlacementState, stamp: int, side: float, cooling: Cooling, random: Words, stop: Longs
) -> int:
    """Anneal from ``s.slot``; temperatures are times.

    The start must be feasible, and ``s.value[1]`` its latency. ``s.best`` and ``s.value[0]`` are updated. ``stamp`` is
    larger than any number of a trial before; ``side`` weighs the time all pieces take together in the energy. Returns
    the number of accepted trials.
    """
    c = _Trials(a, s, side, stamp)
    s.value[2] = _energy(c, s.value[1])
    return anneal_by(c, _STEPS, cooling, random, stop)
