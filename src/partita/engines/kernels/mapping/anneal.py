"""Annealing on the devices of all replicas: two change places, one goes to a free device, or a run of a ring turns.

The energy is the sum over replicas of (load / scale) to a power. Power 1 is the total traffic, which has few local
minima; large powers are the maximum, in which all but the slowest replicas would not count. A swap changes the loads of
the two replicas and of those they exchange bytes with, and these alone are computed again.

A run turns in all stages at once (2-opt, Croes, "A method for solving traveling-salesman problems", 1958): replicas
r, …, q get the devices of q, …, r. Transfers stay as they are, and so do rings but for the links at both ends. Where a
stage's replicas share machines or tiles with those of others, a ring would have to come undone for swaps to do that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.annealing import Cooling, Steps, anneal_by, copy_into, largest, power
from partita.engines.kernels.arrays import Floats, Ints, Longs, Words
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.mapping.arrays import MappingArrays, load_between, load_of, partners
from partita.engines.kernels.random import below, share

#: Fastest links of a device that moves aim at.
AIMED = 24
#: Share of moves that turn a run, and fewest replicas of a ring of which turning one changes anything.
TURNS, TURNED = 0.1, 4
#: Trials after which the rounding of the energies' sum is dropped.
ADDED_UP = 65536


class _Mapping(NamedTuple):
    """A mapping under moves.

    ``near`` as in ``anneal``; ``device`` (n,) and ``resident`` (D,), −1 for none; ``load`` and ``energy`` (n,) of
    replicas, ``total`` (1,) the sum of energies; ``top`` (1,) the largest load of ``best``, and ``above`` (1,) how many
    replicas are not below it. Of a move: ``touched[:count]`` are the replicas whose loads change, to ``fresh[0]``, and
    their energies to ``fresh[1]``.
    """

    a: MappingArrays
    near: Ints
    device: Ints
    best: Ints
    resident: Ints
    load: Floats
    energy: Floats
    total: Floats
    top: Floats
    above: Longs
    mark: Ints
    touched: Ints
    fresh: Floats
    scale: float
    exponent: int
    turns: bool


class _Swap(NamedTuple):
    """Replica x has gone from one device to another, but for ``resident``; y, unless it is −1, the other way.

    The energy rises by ``rise`` in means of a replica, and ``above`` replicas more are not below the best. If ``run``
    is not 0, so many replicas from x on of all stages are to turn instead, which is not made yet.
    """

    rise: float
    x: int
    y: int
    old: int
    new: int
    many: int
    energy: float
    above: int
    run: int


@inlined
def _energy(c: _Mapping, load: float) -> float:
    """Within what a float holds."""
    return power(min(load / c.scale, 1e8), c.exponent)


@inlined
def _add(a: MappingArrays, x: int, mark: Ints, stamp: int, touched: Ints, count: int) -> int:
    """Note a replica, and those whose loads depend on its device."""
    if mark[x] != stamp:
        mark[x] = stamp
        touched[count] = x
        count += 1
    for y in partners(a, x):
        if mark[y] != stamp:
            mark[y] = stamp
            touched[count] = y
            count += 1
    return count


@inlined
def _partner(a: MappingArrays, random: Words, x: int) -> int:
    """Any replica that x exchanges bytes with; −1 if there is none."""
    replicas = a.replicas
    s, r = x // replicas, x % replicas
    links = a.ptr[s + 1] - a.ptr[s]
    ring = 2 if a.ring[s] > 0.0 else 0
    if links + ring == 0:
        return -1
    pick = below(random, links + ring)
    if pick < links:
        return int(a.other[a.ptr[s] + pick] * replicas + r)
    return int(a.after[x] if pick == links else a.before[x])


@inlined
def _propose(c: _Mapping, random: Words, trial: int, temperature: float) -> _Swap:
    """Any replica, or one of the slower ones, to any device, or one near what it exchanges bytes with."""
    n, devices = c.device.shape[0], c.resident.shape[0]
    if trial % ADDED_UP == ADDED_UP - 1:
        c.total[0] = 0.0
        for z in range(n):
            c.total[0] += c.energy[z]
    if c.turns and share(random) < TURNS:
        return _propose_turn(c, random)
    x = below(random, n)
    if share(random) < 0.5:
        for _ in range(2):
            y = below(random, n)
            if c.load[y] > c.load[x]:
                x = y
    old = new = int(np.int64(c.device[x]))
    if share(random) < 0.75:
        y = _partner(c.a, random, x)
        if y >= 0:
            u = share(random)
            new = int(np.int64(c.near[c.device[y], int(min(AIMED, c.near.shape[1]) * u * u)]))
    if new == old:
        new = below(random, devices)
        if new == old:
            return _Swap(np.inf, x, -1, old, old, 0, 0.0, 0, 0)
    y = int(np.int64(c.resident[new]))
    c.device[x] = new
    count = _add(c.a, x, c.mark, trial, c.touched, 0)
    if y >= 0:
        c.device[y] = old
        count = _add(c.a, y, c.mark, trial, c.touched, count)
    change, above = 0.0, 0
    for k in range(count):
        z = c.touched[k]
        c.fresh[0, k] = load_of(c.a, c.device, z)
        c.fresh[1, k] = _energy(c, c.fresh[0, k])
        change += c.fresh[1, k] - c.energy[z]
        above += int(c.fresh[0, k] >= c.top[0]) - int(c.load[z] >= c.top[0])
    return _Swap(_rise(c, change), x, y, old, new, count, change, above, 0)


@inlined
def _rise(c: _Mapping, change: float) -> float:
    """In means of a replica."""
    if change <= 0.0:
        return change
    return change * c.device.shape[0] / c.total[0] if c.total[0] > 0.0 else np.inf


@inlined
def _propose_turn(c: _Mapping, random: Words) -> _Swap:
    """A run after which a replica is beside one whose column is near it, or any."""
    a, replicas = c.a, c.a.replicas
    x = below(random, c.device.shape[0])
    old, u = int(np.int64(c.device[x])), share(random)
    y = int(np.int64(c.resident[c.near[old, int(min(AIMED, c.near.shape[1]) * u * u)]]))
    if y < 0 or share(random) < 0.25:
        y = below(random, c.device.shape[0])
    # From behind x to y, or from y to before x; or, which is the same ring, all others.
    first, length = (x + 1) % replicas, (y - x) % replicas
    if share(random) < 0.5:
        first, length = y % replicas, (x - y) % replicas
    if 2 * length > replicas:
        first, length = (first + length) % replicas, replicas - length
    if length < 2:
        return _Swap(np.inf, x, -1, old, old, 0, 0.0, 0, 0)
    last, preceding, following = (first + length - 1) % replicas, (first - 1) % replicas, (first + length) % replicas
    count, change, above = 0, 0.0, 0
    for s in range(a.ring.shape[0]):
        if a.ring[s] == 0.0:
            continue
        base = s * replicas
        head, tail, outer, inner = base + first, base + last, base + preceding, base + following
        ends = c.device[head], c.device[tail], c.device[outer], c.device[inner]
        for end in range(4):
            # Who it is now, and who it will be; and the devices beside it then.
            if end == 0:
                now, then, one, two = head, tail, c.device[a.after[head]], ends[3]
            elif end == 1:
                now, then, one, two = tail, head, ends[2], c.device[a.before[tail]]
            elif end == 2:
                now, then, one, two = outer, outer, ends[1], c.device[a.before[outer]]
            else:
                now, then, one, two = inner, inner, c.device[a.after[inner]], ends[0]
            load = load_between(a, c.device, now, one, two)
            c.touched[count], c.fresh[0, count], c.fresh[1, count] = then, load, _energy(c, load)
            change += c.fresh[1, count] - c.energy[now]
            above += int(load >= c.top[0]) - int(c.load[now] >= c.top[0])
            count += 1
    return _Swap(_rise(c, change), first, -1, old, old, count, change, above, length)


@inlined
def _turn(c: _Mapping, first: int, length: int) -> None:
    """Turn a run, with what its replicas take."""
    replicas = c.a.replicas
    for k in range(length // 2):
        r, q = (first + k) % replicas, (first + length - 1 - k) % replicas
        for s in range(c.a.ring.shape[0]):
            x, y = s * replicas + r, s * replicas + q
            c.device[x], c.device[y] = c.device[y], c.device[x]
            c.load[x], c.load[y] = c.load[y], c.load[x]
            c.energy[x], c.energy[y] = c.energy[y], c.energy[x]
            c.resident[c.device[x]], c.resident[c.device[y]] = x, y


@inlined
def _keep(c: _Mapping, move: _Swap) -> None:
    if move.run > 0:
        _turn(c, move.x, move.run)
    else:
        c.resident[move.new], c.resident[move.old] = move.x, move.y
    c.total[0] += move.energy
    c.above[0] += move.above
    for k in range(move.many):
        z = c.touched[k]
        c.load[z], c.energy[z] = c.fresh[0, k], c.fresh[1, k]
    if c.above[0] == 0:
        _note_best(c)


@inlined
def _undo(c: _Mapping, move: _Swap) -> None:
    if move.run > 0:
        return
    c.device[move.x] = move.old
    if move.y >= 0:
        c.device[move.y] = move.new


@inlined
def _note_best(c: _Mapping) -> None:
    """All loads are below the largest of the best mapping: this one is better."""
    c.top[0] = largest(c.load)
    copy_into(c.best, c.device)
    for z in range(c.load.shape[0]):
        c.above[0] += c.load[z] >= c.top[0]


_STEPS = Steps(_propose, _keep, _undo)


@compiled
def anneal(
    a: MappingArrays,
    near: Ints,
    device: Ints,
    best: Ints,
    scale: float,
    exponent: int,
    target: float,
    cooling: Cooling,
    random: Words,
    stop: Longs,
) -> float:
    """Anneal ``device`` in place; ``best`` gets the best mapping met, whose largest load is returned.

    ``best`` is written only where that is below ``target``, which is returned otherwise. ``near`` has the other devices
    of every device, nearest first. The energy is Σ (load / ``scale``)^exponent, the scale being the largest load of a
    known mapping; temperatures are shares of the mean energy of a replica.
    """
    n, devices = device.shape[0], a.inverse.shape[0]
    resident, load, energy, fresh = np.full(devices, -1, np.int32), np.empty(n), np.empty(n), np.empty((2, n))
    for x in range(n):
        resident[device[x]] = x
    mark, touched = np.full(n, -1, np.int32), np.empty(n, np.int32)
    total, top, above = np.zeros(1), np.full(1, target), np.zeros(1, np.int64)
    # Four ends in every stage have to find room among those touched.
    turns = a.replicas >= TURNED and largest(a.ring) > 0.0
    c = _Mapping(
        a, near, device, best, resident, load, energy, total, top, above, mark, touched, fresh, scale, exponent, turns
    )
    for x in range(n):
        c.load[x] = load_of(a, device, x)
        c.energy[x] = _energy(c, c.load[x])
        total[0] += c.energy[x]
        above[0] += c.load[x] >= target
    if above[0] == 0:
        _note_best(c)
    if devices > 1:
        anneal_by(c, _STEPS, cooling, random, stop)
    return float(top[0])
