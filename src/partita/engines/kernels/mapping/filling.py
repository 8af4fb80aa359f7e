"""Columns that fill islands within a target, by annealing: islands may have too many or too few replicas on the way.

Swaps of devices keep every island full, so that what needs several of them at once is hard to come by. Here a replica
goes to another island alone, two replicas change places, or a column is taken out of the rings and a copy of another
one goes in behind that. The energy is what islands have too many or too few, and what replicas take longer than the
target.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.annealing import Cooling, Steps, anneal_by
from partita.engines.kernels.arrays import Floats, Ints, Longs, Words
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.random import below, share

#: Shares of moves that take a column out, and in which two replicas change places; fewest replicas for the first.
COLUMNS, SWAPS, FEWEST = 0.2, 0.3, 4
#: Where a replica goes alone: the shares of moves to the island of a partner and of one beside it in the ring.
TO_PARTNERS, ALONG = 0.4, 0.4
#: What a replica above the target counts, and what for its share above that; and what every replica does that an island
#: has too many or too few.
LATE, LATER, OFF = 0.2, 4.0, 0.15
#: Energies of less than this are none.
NONE = 1e-9


class IslandArrays(NamedTuple):
    """A mapping problem on islands: inside of one, and between any two, exchanges take as long as on the best links."""

    time: Floats  #: (S, I) Time of a replica of each stage in each island, without communication.
    pace: Floats  #: (I, I) Seconds per byte.
    room: Ints  #: (I,) Devices.
    exact: bool  #: Whether all of these are to be used.
    #: Exchanges and rings of stages, as in ``MappingArrays``.
    ptr: Ints
    other: Ints
    weight: Floats
    ring: Floats


class _Filling(NamedTuple):
    """Islands ``where`` (R, S) of columns; by island replicas that are too many, by column what its lateness counts."""

    a: IslandArrays
    target: float
    where: Ints
    over: Longs
    late: Floats
    energy: Floats  #: (1,)
    ended: Longs  #: (1,) Not 0 where it is to end, since ``stop`` says so, or no energy is left.
    stop: Longs


class _Move(NamedTuple):
    """Replica (r, s) has gone from ``old`` to ``new``, and (q, t), unless that is the same, the other way.

    Where s is −1, column r is to go out, and a copy of q to go in behind q, of which ``over`` alone knows.
    """

    rise: float
    r: int
    s: int
    q: int
    t: int
    old: int
    new: int


@inlined
def _late(c: _Filling, column: Ints, before: Ints, after: Ints) -> float:
    """What a column between two others counts."""
    a, found = c.a, 0.0
    for s in range(column.shape[0]):
        i = column[s]
        load = a.time[s, i] + a.ring[s] * max(a.pace[i, before[s]], a.pace[i, after[s]])
        for k in range(a.ptr[s], a.ptr[s + 1]):
            load += a.weight[k] * a.pace[i, column[a.other[k]]]
        if load > c.target:
            found += LATE + LATER * (load / c.target - 1.0)
    return found


@inlined
def _late_at(c: _Filling, r: int) -> float:
    """The same of a column where it is; r is −R or more."""
    return _late(c, c.where[r], c.where[r - 1], c.where[(r + 1) % c.where.shape[0]])


@inlined
def _off(c: _Filling, i: int, more: int) -> float:
    """What an island with so many replicas more counts."""
    over = c.over[i] + more
    if over < 0 and not c.a.exact:
        return 0.0
    return float(OFF * abs(over) + over * over / c.a.room[i])


@inlined
def _off_all(c: _Filling) -> float:
    found = 0.0
    for i in range(c.over.shape[0]):
        found += _off(c, i, 0)
    return found


@inlined
def _propose(c: _Filling, random: Words, trial: int, temperature: float) -> _Move:
    if c.stop[0] != 0:
        c.ended[0] = 1
    replicas, stages = c.where.shape
    r, kind = below(random, replicas), share(random)
    if kind < COLUMNS and replicas >= FEWEST:
        return _propose_column(c, r, below(random, replicas))
    s = below(random, stages)
    q, t, old = r, s, int(np.int64(c.where[r, s]))
    new = old
    if kind < COLUMNS + SWAPS:
        q, t = below(random, replicas), below(random, stages)
        new = int(np.int64(c.where[q, t]))
    else:
        pick, links = share(random), c.a.ptr[s + 1] - c.a.ptr[s]
        if pick < TO_PARTNERS and links > 0:
            new = int(np.int64(c.where[r, c.a.other[c.a.ptr[s] + below(random, links)]]))
        elif pick < TO_PARTNERS + ALONG:
            new = int(np.int64(c.where[r - 1 if below(random, 2) == 0 else (r + 1) % replicas, s]))
        else:
            new = below(random, c.over.shape[0])
    if new == old:
        return _Move(np.inf, r, s, r, s, old, old)
    rise = 0.0
    c.where[r, s] = new
    if q == r and t == s:
        rise += _off(c, old, -1) + _off(c, new, 1) - _off(c, old, 0) - _off(c, new, 0)
    else:
        c.where[q, t] = old
    for k in range(-1, 2):
        x, y = (r + k) % replicas, (q + k) % replicas
        rise += _late_at(c, x) - c.late[x]
        # Each column once.
        if 1 < (y - r) % replicas < replicas - 1:
            rise += _late_at(c, y) - c.late[y]
    return _Move(rise, r, s, q, t, old, new)


@inlined
def _propose_column(c: _Filling, r: int, q: int) -> _Move:
    replicas, stages = c.where.shape
    before, after, ahead = (r - 1) % replicas, (r + 1) % replicas, (q + 1) % replicas
    if q in (r, before):
        return _Move(np.inf, r, 0, r, 0, 0, 0)
    where = c.where
    rise = -_off_all(c) - c.late[r] - c.late[before] - c.late[q]
    for s in range(stages):
        c.over[where[r, s]] -= 1
        c.over[where[q, s]] += 1
    rise += _off_all(c) + _late(c, where[before], where[before - 1], where[after])
    rise += _late(c, where[q], where[q], where[ahead])
    if after == q:
        rise += _late(c, where[q], where[before], where[q])
    else:
        rise += _late(c, where[q], where[q - 1], where[q])
        rise += _late(c, where[after], where[before], where[(after + 1) % replicas]) - c.late[after]
    return _Move(rise, r, -1, q, -1, 0, 0)


@inlined
def _keep(c: _Filling, move: _Move) -> None:
    replicas, stages = c.where.shape
    if move.s < 0:
        # Those behind r up to q take one step; what is left at q is the copy.
        p = move.r
        while p != move.q:
            for s in range(stages):
                c.where[p, s] = c.where[(p + 1) % replicas, s]
            c.late[p] = c.late[(p + 1) % replicas]
            p = (p + 1) % replicas
    elif move.q == move.r and move.t == move.s:
        c.over[move.old] -= 1
        c.over[move.new] += 1
    for k in range(-1, 2):
        x, y = (move.r + k) % replicas, (move.q + k) % replicas
        c.late[x], c.late[y] = _late_at(c, x), _late_at(c, y)
    c.energy[0] += move.rise
    if c.energy[0] < NONE:
        c.ended[0] = 1


@inlined
def _undo(c: _Filling, move: _Move) -> None:
    if move.s < 0:
        for s in range(c.where.shape[1]):
            c.over[c.where[move.r, s]] += 1
            c.over[c.where[move.q, s]] -= 1
    elif move.new != move.old:
        c.where[move.r, move.s] = move.old
        if move.q != move.r or move.t != move.s:
            c.where[move.q, move.t] = move.new


_STEPS = Steps(_propose, _keep, _undo)


@compiled
def fill_by_moves(a: IslandArrays, where: Ints, target: float, cooling: Cooling, random: Words, stop: Longs) -> bool:
    """Anneal islands of columns, (R, S) with R > 2, in place; whether all are full and all replicas within a target.

    Where not all devices are to be used, islands are not too full. ``stop`` is polled.
    """
    replicas = where.shape[0]
    over, late = np.zeros(a.room.shape[0], np.int64), np.empty(replicas)
    c = _Filling(a, target, where, over, late, np.zeros(1), np.zeros(1, np.int64), stop)
    for i in range(over.shape[0]):
        over[i] = -a.room[i]
    for r in range(replicas):
        for s in range(where.shape[1]):
            over[where[r, s]] += 1
        late[r] = _late_at(c, r)
        c.energy[0] += late[r]
    c.energy[0] += _off_all(c)
    if c.energy[0] >= NONE:
        anneal_by(c, _STEPS, cooling, random, c.ended)
    return bool(c.energy[0] < NONE)
