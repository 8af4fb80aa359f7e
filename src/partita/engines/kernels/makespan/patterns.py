"""What one of several equal parts of a block takes at least, whatever its placement, at weights that make it dear.

At weights on what devices do, send and receive and on chains, what a part takes is a sum over its operators, by their
devices, and over its edges, by those of both ends. The least over all placements is found operator by operator (Bertelè
and Brioschi, *Nonserial Dynamic Programming*, 1972): for every choice of devices of its neighbours the best device of
one, which is then gone. What holds memory stays to the end, so that the least is known by how memory is divided.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs
from partita.engines.kernels.compiled import called, compiled
from partita.engines.kernels.makespan.arrays import MakespanArrays
from partita.engines.kernels.makespan.parts import PartArrays, PartLimits, climb

#: How much more than the least columns of a turn take at most, and how many there are at most.
_NEAR, _EACH = 0.1, 8
#: By what share steps of a turn are smoother than those of the next one, and what is not worth another turn.
_SMOOTHER, _ENOUGH = 0.7, 3e-4
#: Of work, sends and receives, and of those to and from others alone, which of ``serial`` they are.
_KIND = (0, 1, 2, 1, 2)


class PartRoom(NamedTuple):
    """Scratch of one thread; L devices are looked at."""

    unary: Floats  #: (K, L) What operators take.
    pair: Floats  #: (e, L, L) What inner edges take.
    #: What is found of operators that go, and their best devices; that of each is from ``ptr`` on.
    tables: Floats
    picks: Longs
    ptr: Longs
    least: Floats  #: (m,) The least by how memory is divided.
    at: Longs  #: (m,) The devices of holders then, as one number.
    digit: Longs  #: (K,) A placement.
    chosen: Bools  #: (D,) Devices of those at least used that cost least.
    each: Floats  #: (D,)


@compiled
def _room(part: PartArrays, local: int, size: int, classes: int) -> PartRoom:
    many, gone = part.row.shape[0], part.gone.shape[0]
    ptr = np.zeros(gone + 1, dtype=np.int64)
    for t in range(gone):
        ptr[t + 1] = ptr[t] + local ** int((part.scope[t] >= 0).sum())
    return PartRoom(
        np.empty((many, local)),
        np.empty((part.inner.shape[0], local, local)),
        np.empty(ptr[gone]),
        np.empty(ptr[gone], dtype=np.int64),
        ptr,
        np.empty(classes),
        np.zeros(classes, dtype=np.int64),
        np.zeros(many, dtype=np.int64),
        np.zeros(size, dtype=np.bool_),
        np.empty(size),
    )


@called
def _on_chains(chains: Floats, on: Bools, at: int) -> float:
    """What chains (j,) add up to that an operator or an edge is ``on`` (j, …)."""
    found = 0.0
    for j in range(chains.shape[0]):
        if on[j, at]:
            found += chains[j]
    return found


@compiled
def _cost(
    a: MakespanArrays,
    part: PartArrays,
    able: Bools,
    fixed: Longs,
    devs: Longs,
    count: int,
    w: Floats,
    unary: Floats,
    pair: Floats,
) -> None:
    """Fill (K, L) and (e, L, L) with what operators and inner edges of a part take at weights (5·D + j,)."""
    size, many, local = a.time.shape[1], part.row.shape[0], devs.shape[0]
    chains = w[5 * size :] / count
    for k in range(many):
        on = _on_chains(chains, part.on_row, k)
        for x in range(local):
            d = devs[x]
            unary[k, x] = (w[d] + on) * a.time[part.row[k], d] if able[k, d] else math.inf
    for e in range(part.inner.shape[0]):
        f, on = part.inner[e, 2], _on_chains(chains, part.on_inner, e)
        pair[e] = 0.0
        if f < 0:
            continue
        for x in range(local):
            for y in range(local):
                if x != y:
                    c, d = devs[x], devs[y]
                    pair[e, x, y] = (w[size + c] + w[2 * size + d] + on) * a.cost[f, c, d]
    for e in range(part.reads.shape[0]):
        u, k, f = part.reads[e]
        if f < 0:
            continue
        on = _on_chains(chains, part.on_reads, e)
        c = fixed[u]
        for x in range(local):
            d = devs[x]
            if c != d:
                unary[k, x] += (w[size + c] + w[2 * size + d] + w[3 * size + c] + on) * a.cost[f, c, d]
    for e in range(part.gives.shape[0]):
        k, v, f = part.gives[e]
        if f < 0:
            continue
        on = _on_chains(chains, part.on_gives, e)
        d = fixed[v]
        for x in range(local):
            c = devs[x]
            if c != d:
                unary[k, x] += (w[size + c] + w[2 * size + d] + w[4 * size + d] + on) * a.cost[f, c, d]


@compiled
def _eliminate(part: PartArrays, devs: Longs, size: int, room: PartRoom) -> None:
    """Find the least of a part by how memory is divided, and the devices of holders for it, in ``room``."""
    unary, pair, tables, picks, ptr = room.unary, room.pair, room.tables, room.picks, room.ptr
    least, at, digit = room.least, room.at, room.digit
    local, gone = devs.shape[0], part.gone.shape[0]
    for t in range(gone + 1):
        v = part.gone[t] if t < gone else -1
        wide = part.scope.shape[1] if t < gone else part.holders.shape[0]
        scope = part.scope[t] if t < gone else part.holders
        while wide > 0 and scope[wide - 1] < 0:
            wide -= 1
        total = local**wide
        if t == gone:
            least[:] = math.inf
        for k in range(wide):
            digit[scope[k]] = 0
        for number in range(total):
            best, pick = math.inf, 0
            for x in range(local if v >= 0 else 1):
                value = 0.0
                if v >= 0:
                    digit[v] = x
                    value = unary[v, x]
                else:
                    for k in range(wide):
                        value += unary[scope[k], digit[scope[k]]]
                if value >= best:
                    continue
                for e in range(part.inner.shape[0]):
                    if part.met[e] == t:
                        value += pair[e, digit[part.inner[e, 0]], digit[part.inner[e, 1]]]
                for other in range(t):
                    if part.into[other] == t:
                        place, stride = ptr[other], 1
                        for k in range(part.scope.shape[1]):
                            if part.scope[other, k] >= 0:
                                place += stride * digit[part.scope[other, k]]
                                stride *= local
                        value += tables[place]
                if value < best:
                    best, pick = value, x
            if v >= 0:
                tables[ptr[t] + number] = best
                picks[ptr[t] + number] = pick
            else:
                place, stride = 0, 1
                for k in range(wide):
                    place += stride * devs[digit[scope[k]]]
                    stride *= size
                m = part.of[place]
                if m >= 0 and best < least[m]:
                    least[m] = best
                    at[m] = number
            for k in range(wide):
                digit[scope[k]] += 1
                if digit[scope[k]] < local:
                    break
                digit[scope[k]] = 0


@compiled
def _place(part: PartArrays, local: int, number: int, room: PartRoom) -> None:
    """Put the best placement for one of the holders into ``room.digit``."""
    picks, ptr, digit = room.picks, room.ptr, room.digit
    for k in range(part.holders.shape[0]):
        digit[part.holders[k]] = number % local
        number //= local
    for t in range(part.gone.shape[0] - 1, -1, -1):
        place, stride = ptr[t], 1
        for k in range(part.scope.shape[1]):
            if part.scope[t, k] >= 0:
                place += stride * digit[part.scope[t, k]]
                stride *= local
        digit[part.gone[t]] = picks[place]


@compiled
def _take(
    a: MakespanArrays, part: PartArrays, fixed: Longs, devs: Longs, count: int, digit: Longs, found: Floats
) -> None:
    """Add to ``found`` (5·D + j,) what a part takes in one placement."""
    size = a.time.shape[1]
    for k in range(part.row.shape[0]):
        d = devs[digit[k]]
        lasts = a.time[part.row[k], d]
        found[d] += lasts
        for j in range(part.on_row.shape[0]):
            if part.on_row[j, k]:
                found[5 * size + j] += lasts / count
    for kind in range(3):
        edges = part.inner if kind == 0 else part.reads if kind == 1 else part.gives
        for e in range(edges.shape[0]):
            u, v, f = edges[e]
            c = fixed[u] if kind == 1 else devs[digit[u]]
            d = fixed[v] if kind == 2 else devs[digit[v]]
            if f < 0 or c == d:
                continue
            moved = a.cost[f, c, d]
            found[size + c] += moved
            found[2 * size + d] += moved
            if kind == 1:
                found[3 * size + c] += moved
            elif kind == 2:
                found[4 * size + d] += moved
            for j in range(part.on_row.shape[0]):
                on = part.on_inner[j, e] if kind == 0 else part.on_reads[j, e] if kind == 1 else part.on_gives[j, e]
                if on:
                    found[5 * size + j] += moved / count


@compiled
def _find(
    a: MakespanArrays,
    part: PartArrays,
    limits: PartLimits,
    able: Bools,
    fixed: Longs,
    devs: Longs,
    count: int,
    w: Floats,
    room: PartRoom,
) -> float:
    """What passes besides parts at weights, at least; ``room`` gets the least of a part, and where most is paid for."""
    size = a.time.shape[1]
    _cost(a, part, able, fixed, devs, count, w, room.unary, room.pair)
    _eliminate(part, devs, size, room)
    found = 0.0
    for side in range(5):
        for d in range(size):
            if limits.sure[side, d]:
                found += w[side * size + d] * limits.around[side, d]
    for j in range(limits.beside.shape[0]):
        found += w[5 * size + j] * limits.beside[j]
    room.chosen[:] = False
    if limits.few > 0:
        room.each[:] = math.inf
        for d in devs:
            room.each[d] = 0.0
            for side in range(3):
                if limits.maybe[side, d]:
                    room.each[d] += w[side * size + d] * limits.around[side, d]
        for _ in range(min(limits.few, devs.shape[0])):
            d = int(np.argmin(room.each))
            found += room.each[d]
            room.each[d] = math.inf
            room.chosen[d] = True
    return found


@compiled
def weigh_parts(
    a: MakespanArrays,
    part: PartArrays,
    limits: PartLimits,
    able: Bools,
    fixed: Longs,
    devs: Longs,
    count: int,
    price: Floats,
    turns: int,
    steps: int,
    takes: Floats,
    picked: Longs,
) -> None:
    """Fill ``takes`` (m,) with what one of ``count`` parts takes at good weights, by how memory is divided.

    ``picked`` (m, K) gets devices for each. Parts are on ``devs`` alone, where they are ``able`` (K, D) to be; other
    operators that they have edges to are on ``fixed`` (n,) devices. Memory is paid for at ``price`` (m,).
    """
    size, many, local, chains = a.time.shape[1], part.row.shape[0], devs.shape[0], limits.beside.shape[0]
    rows, classes = 5 * size + chains, price.shape[0]
    room = _room(part, local, size, classes)
    # Weights are on what is serial and can be used.
    use, width = np.empty(rows, dtype=np.int64), 0
    for r in range(rows):
        if r >= 5 * size or (limits.used[r // size, r % size] and a.serial[_KIND[r // size]]):
            use[width] = r
            width += 1
    columns, costs = np.empty((turns * _EACH, width)), np.empty(turns * _EACH)
    shapes = np.empty((turns * _EACH, many + size), dtype=np.int64)
    w, top, taken, small = np.zeros(rows), np.zeros(rows), np.empty(rows), np.full(width, 1.0 / width)
    best, filled = -math.inf, 0
    for turn in range(turns):
        w[use[:width]] = small
        beside = _find(a, part, limits, able, fixed, devs, count, w, room) / count
        value = beside + (room.least + price).min()
        if value == math.inf:
            takes[:] = math.inf
            return
        if value > best:
            best = value
            top[:] = w
        # Columns of what is near to the least, the nearest first.
        for _ in range(_EACH):
            m = int(np.argmin(room.least + price))
            if beside + room.least[m] + price[m] > value + _NEAR * abs(value):
                break
            _place(part, local, room.at[m], room)
            room.least[m] = math.inf
            shapes[filled, :many] = room.digit
            shapes[filled, many:] = room.chosen
            again = False
            for p in range(filled):
                again = again or (shapes[p] == shapes[filled]).all()
            if again:
                continue
            taken[:] = 0.0
            _take(a, part, fixed, devs, count, room.digit, taken)
            for side in range(5):
                for d in range(size):
                    if limits.sure[side, d] or (limits.maybe[side, d] and room.chosen[d]):
                        taken[side * size + d] += limits.around[side, d] / count
            taken[5 * size :] += limits.beside / count
            columns[filled] = taken[use[:width]]
            costs[filled] = price[m]
            filled += 1
        small[:] = top[use[:width]]
        if climb(columns[:filled], costs[:filled], steps, _SMOOTHER**turn, small) <= best + _ENOUGH * abs(best):
            break
    beside = _find(a, part, limits, able, fixed, devs, count, top, room) / count
    takes[:] = beside + room.least
    for m in range(classes):
        if room.least[m] < math.inf:
            _place(part, local, room.at[m], room)
            picked[m] = devs[room.digit]
