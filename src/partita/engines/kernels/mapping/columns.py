"""Columns, one replica of every stage each, placed whole: all of them within a target, and rings made of them.

What replicas exchange within a column is known once it is placed; what is left are the rings. So a mapping is a ring of
columns on different devices, each of which leaves its replicas time for the links to both beside it.
``partita.problems.mapping.whole_columns`` says what for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs, Words
from partita.engines.kernels.bits import add, has, listed
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.mapping.arrays import MappingArrays
from partita.engines.kernels.mapping.placing import FOUND, GAVE_UP, NONE, least_load

#: Devices at most: a column is a word of them.
WORD = 64


@compiled
def columns_within(
    a: MappingArrays,
    near: Ints,
    order: Ints,
    allowed: Ints,
    target: float,
    checks: int,
    stop: Longs,
    columns: Ints,
    base: Floats,
) -> int:
    """All places of a column in which its replicas can be within a target; how many, or ``GAVE_UP``.

    Parameters
    ----------
    a, near
        The problem, transfers of every stage sorted by size, and the other devices of every device, nearest first.
    order
        (S,) The stages in the order in which they are placed.
    allowed, target, checks, stop
        As in ``placing.depth_first``.
    columns, base
        (most, S) They get the devices of every place, and what the replicas there take without their rings.
    """
    stages, devices = allowed.shape
    sizes, links = np.empty(devices + 4), np.empty(devices + 4)
    device = np.full(stages * a.replicas, -1, dtype=np.int32)
    taken = np.zeros(devices, dtype=np.int32)
    tried = np.full(stages, -1, dtype=np.int32)
    place, count, made = 0, 0, 0
    while place >= 0:
        if place == stages:
            if count == columns.shape[0]:
                return GAVE_UP
            for s in range(stages):
                d = device[s * a.replicas]
                total = a.time[s, d]
                for k in range(a.ptr[s], a.ptr[s + 1]):
                    total += a.weight[k] * a.inverse[d, device[a.other[k] * a.replicas]]
                columns[count, s], base[count, s] = d, total
            count += 1
            place -= 1
            continue
        x = order[place] * a.replicas
        if device[x] >= 0:
            taken[device[x]] = 0
            device[x] = -1
        d = tried[place] + 1
        while d < devices:
            if taken[d] == 0 and allowed[order[place], d] != 0:
                device[x], taken[d] = d, 1
                made += 1
                fits = True
                for i in range(place, -1, -1):
                    if not least_load(a, near, device, taken, order[i] * a.replicas, sizes, links) <= target:
                        fits = False
                        break
                if fits:
                    break
                device[x], taken[d] = -1, 0
            d += 1
        if made > checks or stop[0] != 0:
            return GAVE_UP
        tried[place] = d
        if d < devices:
            place += 1
            if place < stages:
                tried[place] = -1
        else:
            place -= 1
    return count


@inlined
def _follow(a: MappingArrays, columns: Ints, base: Floats, c: int, e: int, target: float) -> bool:
    """Whether two columns can follow each other in the rings."""
    for s in range(columns.shape[1]):
        if a.ring[s] > 0.0:
            d, f = columns[c, s], columns[e, s]
            if base[c, s] + a.ring[s] * a.inverse[d, f] > target or base[e, s] + a.ring[s] * a.inverse[f, d] > target:
                return False
    return True


@compiled
def column_pairs(a: MappingArrays, columns: Ints, base: Floats, target: float, apart: Words, beside: Words) -> None:
    """(N, W) Sets, both empty before: of every column those on other devices, and of these those that can be next."""
    count, stages = columns.shape
    holds = np.zeros(count, dtype=np.uint64)
    for c in range(count):
        for s in range(stages):
            holds[c] |= np.uint64(1) << np.uint64(columns[c, s])
    for c in range(count):
        for e in range(c):
            if holds[c] & holds[e] == np.uint64(0):
                add(apart[c], e)
                add(apart[e], c)
                if _follow(a, columns, base, c, e, target):
                    add(beside[c], e)
                    add(beside[e], c)


class Rings(NamedTuple):
    """Columns in the order of their first devices, in some order of the devices, and which of them can be together."""

    first: Ints  #: (N,) The place of the first device of every column in that order.
    apart: Words  #: (N, W) As ``column_pairs`` has them.
    beside: Words
    having: Words  #: (D, W) The columns on every device, where it has to be used; no rows where none has to.
    ringed: bool  #: Whether it makes a difference who is next.


@inlined
def _size(row: Words) -> int:
    """Members of a set."""
    found = 0
    for j in range(row.shape[0]):
        x = row[j]
        x -= (x >> np.uint64(1)) & np.uint64(0x5555555555555555)
        x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
        x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        found += int(np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56)))
    return found


@inlined
def _narrow(g: Rings, domain: Words, chosen: Ints, p: int, q: int) -> bool:
    """Leave position q those that can be there with the column at p; whether there are any."""
    replicas, c = chosen.shape[0], chosen[p]
    near = g.ringed and (q == (p + 1) % replicas or p == (q + 1) % replicas)
    some = np.uint64(0)
    for j in range(domain.shape[0]):
        domain[j] &= g.beside[c, j] if near else g.apart[c, j]
        some |= domain[j]
    return bool(some != np.uint64(0))


@inlined
def _covered(g: Rings, domains: Words, chosen: Ints) -> bool:
    """Whether every device that has to be used is in some column that is chosen, or still possible."""
    for d in range(g.having.shape[0]):
        found = False
        for q in range(chosen.shape[0]):
            if chosen[q] >= 0:
                found = has(g.having[d], chosen[q])
            else:
                for j in range(domains.shape[1]):
                    if domains[q, j] & g.having[d, j] != np.uint64(0):
                        found = True
                        break
            if found:
                break
        if not found:
            return False
    return True


@compiled
def ring_of_columns(g: Rings, checks: int, stop: Longs, chosen: Ints) -> int:
    """Columns for all R replicas on different devices: ``FOUND``, …; ``chosen`` (R,) gets them.

    ``checks`` is the most columns that are tried, ``stop`` is polled. Rings begin with the first device of all, and go
    on to the lower one of both columns beside that; without rings, replicas come in the order of their first devices.
    Of all positions, the one that the fewest columns can have is next.
    """
    replicas, (count, width) = chosen.shape[0], g.apart.shape
    domains = np.zeros((replicas + 1, replicas, width), dtype=np.uint64)
    members, size = np.empty((replicas, count), dtype=np.int32), np.zeros(replicas, dtype=np.int64)
    at, tried = np.zeros(replicas, dtype=np.int32), np.zeros(replicas, dtype=np.int64)
    for c in range(count):
        for q in range(replicas):
            add(domains[0, q], c)
    chosen[:] = -1
    size[0] = listed(domains[0, 0], members[0])
    place, made = 0, 0
    while place >= 0:
        p = at[place]
        chosen[p] = -1
        if tried[place] == size[place]:
            place -= 1
            continue
        c = members[place, tried[place]]
        tried[place] += 1
        made += 1
        if made > checks or stop[0] != 0:
            return GAVE_UP
        if place == 0 and g.having.shape[0] > 0 and g.first[c] > 0:
            # The first device is in the first column.
            place -= 1
            continue
        chosen[p] = c
        if place + 1 == replicas:
            if _covered(g, domains[place], chosen):
                return FOUND
            continue
        fits, least, following = True, count + 1, -1
        for q in range(replicas):
            if chosen[q] >= 0:
                continue
            domain = domains[place + 1, q]
            for j in range(width):
                domain[j] = domains[place, q, j]
            if place == 0 or not g.ringed:
                e = 0
                while e < count and g.first[e] <= g.first[c]:
                    domain[e >> 6] &= ~(np.uint64(1) << np.uint64(e & 63))
                    e += 1
            if g.ringed and replicas > 2 and p + q == replicas and min(p, q) == 1:
                for e in range(count):
                    if (e < c) == (p == 1):
                        domain[e >> 6] &= ~(np.uint64(1) << np.uint64(e & 63))
            if not _narrow(g, domain, chosen, p, q):
                fits = False
                break
            many = _size(domain)
            if many < least:
                least, following = many, q
        if fits and _covered(g, domains[place + 1], chosen):
            place += 1
            at[place], tried[place] = following, 0
            size[place] = listed(domains[place, following], members[place])
    return NONE
