"""Annealing on the devices of all replicas: two replicas change places, or one goes to a device that is free.

The energy is the sum over replicas of (load / scale) to a power. Power 1 is the total traffic, which has few local
minima; large powers are the maximum, in which all but the slowest replicas would not count. A swap changes the loads of
the two replicas and of those they exchange bytes with, and these alone are computed again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partita.kernels.arrays import Ints, Longs
from partita.kernels.compiled import compiled
from partita.kernels.mapping.arrays import MappingArrays, load_of


class Cooling(NamedTuple):
    """How to anneal.

    Attributes
    ----------
    seed, moves
        Of the run.
    start, end
        Temperatures, as shares of the mean energy of a replica.
    doublings
        The power is 2 to this number.
    scale
        What loads are divided by; that of a known plan.
    """

    seed: int
    moves: int
    start: float
    end: float
    doublings: int
    scale: float


#: Fastest links of a device that moves aim at.
AIMED = 24


@compiled
def _power(load: float, scale: float, doublings: int) -> float:
    """(load / scale) to the power 2^doublings, within what a float holds."""
    value = min(load / scale, 1e8)
    for _ in range(doublings):
        value *= value
    return value


@compiled
def _add(a: MappingArrays, x: int, mark: Ints, stamp: int, touched: Ints, count: int) -> int:
    """Note a replica, and those whose loads depend on its device."""
    replicas = a.replicas
    s, r = x // replicas, x % replicas
    if mark[x] != stamp:
        mark[x] = stamp
        touched[count] = x
        count += 1
    for k in range(a.ptr[s], a.ptr[s + 1]):
        y = a.other[k] * replicas + r
        if mark[y] != stamp:
            mark[y] = stamp
            touched[count] = y
            count += 1
    if a.ring[s] > 0.0:
        for y in (a.after[x], a.before[x]):
            if mark[y] != stamp:
                mark[y] = stamp
                touched[count] = y
                count += 1
    return count


@compiled
def _partner(a: MappingArrays, x: int) -> int:
    """Any replica that x exchanges bytes with; −1 if there is none."""
    replicas = a.replicas
    s, r = x // replicas, x % replicas
    links = a.ptr[s + 1] - a.ptr[s]
    ring = 2 if a.ring[s] > 0.0 else 0
    if links + ring == 0:
        return -1
    pick = np.random.randint(links + ring)
    if pick < links:
        return int(a.other[a.ptr[s] + pick] * replicas + r)
    return int(a.after[x] if pick == links else a.before[x])


@compiled
def anneal(
    a: MappingArrays, near: Ints, device: Ints, best: Ints, cooling: Cooling, target: float, stop: Longs
) -> float:
    """Anneal ``device`` in place; ``best`` gets the best mapping met if its maximum is below ``target``.

    Parameters
    ----------
    a, near
        The problem, and the other devices of every device, nearest first.
    device
        (n,) Devices of all replicas; at the end those of the last mapping.
    best
        (n,) Written only where a mapping is better than ``target``.
    cooling
        How.
    target
        A maximum; infinite for any.
    stop
        (1,) Polled.

    Returns
    -------
    float
        The maximum of ``best``, or ``target`` if nothing was better.
    """
    np.random.seed(cooling.seed)
    n, devices = device.shape[0], a.inverse.shape[0]
    resident = np.full(devices, -1, dtype=np.int32)
    for x in range(n):
        resident[device[x]] = x
    scale, doublings = cooling.scale, cooling.doublings
    load, energy = np.empty(n), np.empty(n)
    mark, touched = np.full(n, -1, dtype=np.int32), np.empty(n, dtype=np.int32)
    fresh_load, fresh_energy = np.empty(n), np.empty(n)
    total, above = 0.0, 0
    for x in range(n):
        load[x] = load_of(a, device, x)
        energy[x] = _power(load[x], scale, doublings)
        total += energy[x]
        above += load[x] >= target
    if above == 0:
        target = load.max()
        best[:] = device
        for x in range(n):
            above += load[x] >= target
    reach = min(AIMED, near.shape[1])
    if devices < 2:
        return target
    cool = (cooling.end / cooling.start) ** (64.0 / max(1, cooling.moves))
    temperature = cooling.start
    for move in range(cooling.moves):
        if (move & 63) == 63:
            temperature *= cool
            if stop[0] != 0:
                break
            if (move & 65535) == 65535:
                total = energy.sum()
        x = np.random.randint(n)
        if np.random.random() < 0.5:
            # One of the slower replicas.
            for _ in range(2):
                y = np.random.randint(n)
                if load[y] > load[x]:
                    x = y
        old = device[x]
        new = old
        if np.random.random() < 0.75:
            # Near what it exchanges bytes with.
            y = _partner(a, x)
            if y >= 0:
                u = np.random.random()
                new = near[device[y], int(reach * u * u)]
        if new == old:
            new = np.random.randint(devices)
            if new == old:
                continue
        y = resident[new]
        device[x] = new
        if y >= 0:
            device[y] = old
        count = _add(a, x, mark, move, touched, 0)
        if y >= 0:
            count = _add(a, y, mark, move, touched, count)
        change, rise = 0.0, 0
        for k in range(count):
            z = touched[k]
            fresh_load[k] = load_of(a, device, z)
            fresh_energy[k] = _power(fresh_load[k], scale, doublings)
            change += fresh_energy[k] - energy[z]
            rise += int(fresh_load[k] >= target) - int(load[z] >= target)
        if change > 0.0 and change >= -temperature * total / n * math.log(1.0 - np.random.random()):
            device[x] = old
            if y >= 0:
                device[y] = new
            continue
        resident[new], resident[old] = x, y
        total += change
        above += rise
        for k in range(count):
            z = touched[k]
            load[z] = fresh_load[k]
            energy[z] = fresh_energy[k]
        if above == 0:
            target = load.max()
            best[:] = device
            for z in range(n):
                above += load[z] >= target
    return target
