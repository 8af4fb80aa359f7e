"""Columns that can be beside each other in a round, as a graph, and which of them others can stand for.

``partita.problems.mapping.bounds.layout_graph`` says what for.
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Bools, Ints, Longs, Words
from partita.engines.kernels.bits import add, has
from partita.engines.kernels.compiled import compiled, inlined


@inlined
def _lead(own: Words, leads: Words, c: int, d: int) -> bool:
    """Whether the rings of two columns can lead to each other."""
    fits = True
    for j in range(own.shape[1]):
        if own[d, j] & ~leads[c, j] != np.uint64(0) or own[c, j] & ~leads[d, j] != np.uint64(0):
            fits = False
            break
    return fits


@inlined
def _fit(uses: Ints, room: Ints, c: int, d: int) -> bool:
    """Whether islands have room for two columns."""
    fits = True
    for i in range(room.shape[0]):
        if uses[c, i] + uses[d, i] > room[i]:
            fits = False
            break
    return fits


@compiled
def columns_beside(own: Words, leads: Words, uses: Ints, room: Ints, stop: Longs, ptr: Longs, beside: Ints) -> int:
    """All pairs of columns that can be beside each other; how many, or -1 if these are more than have room, or on stop.

    Parameters
    ----------
    own, leads
        (N, W) Sets of stages in islands: where each column has its stages, and where those beside it may have them.
    uses, room
        (N, I), (I,) Devices of every island that a column takes, and that there are.
    stop
        Polled.
    ptr, beside
        (N + 1,), (most,) They get the rows.
    """
    count, found = own.shape[0], 0
    for c in range(count):
        if stop[0] != 0:
            return -1
        for d in range(count):
            if _lead(own, leads, c, d) and _fit(uses, room, c, d):
                if found == beside.shape[0]:
                    return -1
                beside[found] = d
                found += 1
        ptr[c + 1] = found
    return found


@compiled
def drop_dominated(own: Words, leads: Words, uses: Ints, room: Ints, group: Ints, order: Ints, kept: Bools) -> int:
    """As ``drop_replaceable``, where pairs are not listed since they may be too many; see ``columns_beside``."""
    count, dropped, first = kept.shape[0], 0, 0
    near, place = np.empty(count, np.int64), np.full(count, -1, np.int64)
    while first < count:
        last, some = first, 0
        while last < count and group[order[last]] == group[order[first]]:
            some += kept[order[last]]
            last += 1
        members = order[first:last]
        first = last
        if some < 2:
            continue
        # All of a group find room beside the same ones.
        many = 0
        for x in range(count):
            if kept[x] and _fit(uses, room, members[0], x):
                near[many], place[x] = x, many
                many += 1
        rows = np.zeros((members.shape[0], (many + 63) // 64), np.uint64)
        for i in range(members.shape[0]):
            if kept[members[i]]:
                for k in range(many):
                    if _lead(own, leads, members[i], near[k]):
                        add(rows[i], k)
        for i in range(members.shape[0]):
            for j in range(members.shape[0]):
                if i == j or not kept[members[i]] or not kept[members[j]]:
                    continue
                # All of these change places, so that beside itself is beside itself again.
                c, d = place[members[j]], place[members[i]]
                fits = True
                for k in range(rows.shape[1]):
                    lacks = rows[j, k] & ~rows[i, k]
                    if c >= 0 and c >> 6 == k:
                        lacks &= ~(np.uint64(1) << np.uint64(c & 63))
                    if lacks != np.uint64(0):
                        fits = False
                        break
                if fits and c >= 0 and has(rows[j], c):
                    fits = has(rows[i], d)
                if fits:
                    kept[members[j]] = False
                    dropped += 1
        for k in range(many):
            place[near[k]] = -1
    return dropped


@compiled
def drop_replaceable(ptr: Longs, beside: Ints, group: Ints, order: Ints, kept: Bools) -> int:
    """Drop columns for which another one of the same islands can stand wherever they are; how many.

    ``order`` (N,) has the columns by their ``group`` (N,), those that take the same devices of every island.
    """
    count, dropped, first = kept.shape[0], 0, 0
    mark = np.full(count, -1, np.int32)
    while first < count:
        last = first
        while last < count and group[order[last]] == group[order[first]]:
            last += 1
        for i in range(first, last):
            d = order[i]
            if not kept[d] or last - first == 1:
                continue
            for k in range(ptr[d], ptr[d + 1]):
                mark[beside[k]] = d
            for j in range(first, last):
                c = order[j]
                if c == d or not kept[c]:
                    continue
                fits = True
                for k in range(ptr[c], ptr[c + 1]):
                    # All of these change places, so that beside itself is beside itself again.
                    x = d if beside[k] == c else beside[k]
                    if kept[beside[k]] and mark[x] != d:
                        fits = False
                        break
                if fits:
                    kept[c] = False
                    dropped += 1
        first = last
    return dropped


@compiled
def drop_columns(ptr: Longs, beside: Ints, kept: Bools) -> int:
    """Take columns out of all rows; how many pairs are left."""
    found, first = 0, 0
    for c in range(kept.shape[0]):
        last = ptr[c + 1]
        if kept[c]:
            for k in range(first, last):
                if kept[beside[k]]:
                    beside[found] = beside[k]
                    found += 1
        ptr[c + 1] = found
        first = last
    return found


@compiled
def distances(ptr: Longs, beside: Ints, kept: Bools, sources: Bools) -> Ints:
    """(N,) Steps from the nearest of some columns to each of those that are kept; N where there is no way."""
    count = kept.shape[0]
    found = np.full(count, count, np.int32)
    queue, last = np.empty(count, np.int32), 0
    for c in range(count):
        if sources[c]:
            found[c], queue[last] = 0, c
            last += 1
    at = 0
    while at < last:
        c = queue[at]
        at += 1
        for k in range(ptr[c], ptr[c + 1]):
            d = beside[k]
            if kept[d] and found[d] == count:
                found[d], queue[last] = found[c] + 1, d
                last += 1
    return found
