"""Splits with the energy of every device, Σ (cost / ref)^exponent, under moves that are weighed, kept and taken back.

A device costs its load, and where overflowing bytes are reloaded, that. The power smooths the maximum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.annealing import copy_into, largest, power
from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.rows import sets_with
from partita.engines.kernels.throughput.free_splits import FreeArrays, FreeState, relocate

#: Most items moved at once.
BALL = 64


class SplitMemory(NamedTuple):
    """What bytes mean: nothing unless ``limited``; each one beyond a limit costs its ``reload`` time, if that is not 0.

    Otherwise an infinite ``penalty`` rejects what overflows (the start must fit then), and a finite one is charged to
    the energy for each share of a limit by which it is exceeded.
    """

    limited: bool
    penalty: float
    reload: float


class Energies(NamedTuple):
    """A split with ``level`` (D,) energies of devices beside a cost ``ref`` (1,); and scratch space.

    ``over`` (D,) is by which share of ``whole`` (D,), its limit, a device is overfull. With ``simple`` one item can be
    weighed without being moved.
    """

    a: FreeArrays
    s: FreeState
    memory: SplitMemory
    level: Floats
    over: Floats
    whole: Floats
    moves: Ints
    goals: Ints
    seen: Longs
    ref: Floats
    exponent: int
    simple: bool


class SplitMove(NamedTuple):
    """Items go between two devices, whose energies and overflows change.

    Either ``moves[:many]`` of the state have been moved, or none, and ``item`` is still to be.
    """

    rise: float
    item: int
    at: int
    to: int
    many: int
    level_at: float
    level_to: float
    over_at: float
    over_to: float


@inlined
def _cost(c: Energies, d: int) -> float:
    cost = float(c.s.load[d])
    if c.memory.reload > 0.0:
        cost += c.memory.reload * max(0.0, c.s.held[d] + c.s.space[d] - c.a.limit[d])
    return cost


@inlined
def _over(c: Energies, d: int) -> float:
    """By what share of its limit a device is overfull; it may be where bytes are reloaded."""
    if not c.memory.limited or c.memory.reload > 0.0:
        return 0.0
    return float(max(0.0, c.s.held[d] + c.s.space[d] - c.a.limit[d]) / c.whole[d])


@inlined
def _level(c: Energies, d: int, over: float) -> float:
    level = power(_cost(c, d) / c.ref[0], c.exponent)
    if over > 0.0 and c.memory.penalty < np.inf:
        level += c.memory.penalty * over
    return level


@inlined
def refer(c: Energies, ref: float) -> None:
    """Compute all energies beside a cost."""
    c.ref[0] = ref
    for d in range(c.level.shape[0]):
        c.over[d] = _over(c, d)
        c.level[d] = _level(c, d, c.over[d])


@compiled
def energies(a: FreeArrays, s: FreeState, memory: SplitMemory, ref: float, exponent: int) -> Energies:
    """The state of an annealing that begins at ``s``."""
    devices = a.kind_of.shape[0]
    # What an overflow is a share of: the limit, or all there is where nothing is allowed.
    whole, everything = np.empty(devices), a.memory.sum() + a.cover_bytes.sum() + a.workspace.sum()
    for d in range(devices):
        whole[d] = a.limit[d] if a.limit[d] > 0.0 else max(everything, 1e-300)
    moves, goals = np.zeros(BALL + 1, np.int32), np.zeros(BALL + 1, np.int32)
    seen, levels = np.full(a.work.shape[0], -1, np.int64), np.empty((2, devices))
    hard = memory.penalty == np.inf and memory.reload == 0.0 and a.cover_bytes.shape[0] == 0
    simple = not memory.limited or hard
    c = Energies(a, s, memory, levels[0], levels[1], whole, moves, goals, seen, np.empty(1), exponent, simple)
    refer(c, ref)
    return c


@inlined
def no_move() -> SplitMove:
    return SplitMove(np.inf, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0)


@inlined
def move_one(c: Energies, v: int, at: int, to: int) -> SplitMove:
    """A move of one item; not made yet where it can be weighed so."""
    if c.simple:
        return _move_alone(c, v, at, to)
    c.moves[0], c.goals[0] = v, to
    return move_listed(c, at, to, 1)


@inlined
def _move_alone(c: Energies, v: int, at: int, to: int) -> SplitMove:
    a, s = c.a, c.s
    kind_at, kind_to = a.kind_of[at], a.kind_of[to]
    if c.memory.limited and s.held[to] + a.memory[v] + max(s.space[to], a.workspace[v]) > a.limit[to]:
        return no_move()
    load_at, load_to = s.load[at] - a.work[v, kind_at], s.load[to] + a.work[v, kind_to]
    for e in sets_with(a.net, v):
        if s.pins[e, at] == 1:
            load_at -= a.net_cost[e, kind_at]
            if s.pins[e, to] == 0:
                load_to += a.net_cost[e, kind_to]
            elif s.touched[e] == 2:
                load_to -= a.net_cost[e, kind_to]
        elif s.pins[e, to] == 0:
            if s.touched[e] == 1:
                load_at += a.net_cost[e, kind_at]
            load_to += a.net_cost[e, kind_to]
    level_at, level_to = power(load_at / c.ref[0], c.exponent), power(load_to / c.ref[0], c.exponent)
    return SplitMove(level_at + level_to - c.level[at] - c.level[to], v, at, to, 0, level_at, level_to, 0.0, 0.0)


@inlined
def move_listed(c: Energies, at: int, to: int, many: int) -> SplitMove:
    """Move the first items of ``moves`` to ``goals``, of two devices; the list becomes that of the way back."""
    for i in range(many):
        c.goals[i] = relocate(c.a, c.s, c.moves[i], c.goals[i], c.memory.limited)
    over_at, over_to = _over(c, at), _over(c, to)
    level_at, level_to = _level(c, at, over_at), _level(c, to, over_to)
    rise = level_at + level_to - c.level[at] - c.level[to]
    if over_at + over_to > 0.0 and c.memory.penalty == np.inf:
        rise = np.inf
    return SplitMove(rise, 0, at, to, many, level_at, level_to, over_at, over_to)


@inlined
def keep(c: Energies, move: SplitMove) -> None:
    """Note the energies, and the split if it is feasible and the best."""
    s, at, to = c.s, move.at, move.to
    if move.many == 0:
        relocate(c.a, s, move.item, to, c.memory.limited)
    c.level[at], c.level[to] = move.level_at, move.level_to
    c.over[at], c.over[to] = move.over_at, move.over_to
    if _cost(c, at) < s.value[0] and _cost(c, to) < s.value[0] and largest(c.over) == 0.0:
        top = 0.0
        for d in range(c.level.shape[0]):
            top = max(top, _cost(c, d))
        if top < s.value[0] * (1.0 - 1e-12):
            s.value[0] = top
            copy_into(s.best, s.label)


@inlined
def undo(c: Energies, move: SplitMove) -> None:
    """Take back what has been moved."""
    for i in range(move.many):
        relocate(c.a, c.s, c.moves[i], c.goals[i], c.memory.limited)
