"""One set for each device such that every item is in one of them, or in a remainder: a search in depth.

Each set lacks something of the most that a set of its kind can be worth, an item in the remainder too, and all that is
lacking is limited. The next item is one that fewest of the sets that are left have: it goes into one of these, or to
the remainder. Sets that have an item that is taken are no longer left, so that there are few after the first choice;
items that none of them has are in the remainder, which is soon too long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs, Words
from partita.engines.kernels.bits import add, has
from partita.engines.kernels.compiled import called, compiled


class CoverSets(NamedTuple):
    """N sets of n items, those that lack least first.

    ``bits`` (N, W) of the items, the same as lists (``ptr`` (N + 1,), ``member``), ``kind`` (N,), ``lacks`` (N,), and
    ``room`` by how much all may lack together; ``empty`` (K,) is what a device without a set lacks. ``time`` (n,) that
    an item takes in the remainder, ``limit`` of these, and what it ``costs`` (n,) of the room there.
    """

    bits: Words
    ptr: Longs
    member: Ints
    kind: Ints
    lacks: Floats
    room: float
    empty: Floats
    time: Floats
    limit: float
    costs: Floats


class CoverSearch(NamedTuple):
    """Where a search stands, at a depth of at most n: what was chosen there, and the sets that are left.

    ``depth`` (1,); ``left`` (K,) sets of each kind to choose still; by depth: ``item``, ``at`` the place among the sets
    that are left of the one that was chosen (-1 before the first, their number for the remainder), where they ``start``
    in ``lists`` and how many ``sets`` these are, the items ``taken`` (n + 1, W), what is ``used`` of the room and how
    ``long`` the remainder takes. ``seen`` (n,) is for use.
    """

    depth: Longs
    left: Longs
    item: Ints
    at: Ints
    start: Ints
    sets: Ints
    lists: Ints
    taken: Words
    used: Floats
    long: Floats
    seen: Longs


@called
def _next_item(a: CoverSets, s: CoverSearch, depth: int) -> int:
    """The item that fewest of the sets that are left have; -1 if none has any, -2 if it comes to nothing."""
    n = a.time.shape[0]
    s.seen[:] = 0
    for place in range(s.sets[depth]):
        number = s.lists[s.start[depth] + place]
        for p in range(a.ptr[number], a.ptr[number + 1]):
            s.seen[a.member[p]] += 1
    long, used = s.long[depth], s.used[depth]
    if s.sets[depth] > 0:
        # Each further device lacks something, too.
        for kind in range(s.left.shape[0]):
            used += s.left[kind] * min(a.lacks[s.lists[s.start[depth]]], a.empty[kind])
    found = -1
    for v in range(n):
        if has(s.taken[depth], v):
            continue
        if s.seen[v] == 0:
            long += a.time[v]
            used += a.costs[v]
            if long > a.limit or used > a.room:
                return -2
        elif found < 0 or s.seen[v] < s.seen[found] or (s.seen[v] == s.seen[found] and a.time[v] > a.time[found]):
            found = v
    return -2 if used > a.room else found


@called
def _choose(a: CoverSets, s: CoverSearch, depth: int, chosen: int) -> bool:
    """Take a set, one of those of a depth, and keep what goes with it; whether there is room for that."""
    number = s.lists[s.start[depth] + chosen]
    s.used[depth + 1] = s.used[depth] + a.lacks[number]
    s.long[depth + 1] = s.long[depth]
    s.left[a.kind[number]] -= 1
    for w in range(a.bits.shape[1]):
        s.taken[depth + 1, w] = s.taken[depth, w] | a.bits[number, w]
    count, after = 0, s.start[depth] + s.sets[depth]
    for place in range(s.sets[depth]):
        other = s.lists[s.start[depth] + place]
        if s.used[depth + 1] + a.lacks[other] > a.room:
            break
        if s.left[a.kind[other]] == 0:
            continue
        apart = True
        for w in range(a.bits.shape[1]):
            if a.bits[other, w] & a.bits[number, w] != np.uint64(0):
                apart = False
                break
        if apart:
            if after + count == s.lists.shape[0]:
                return False
            s.lists[after + count] = other
            count += 1
    s.start[depth + 1], s.sets[depth + 1] = after, count
    return True


@called
def _leave(a: CoverSets, s: CoverSearch, depth: int, item: int) -> bool:
    """Leave an item to the remainder; whether there is room for the sets that are left."""
    s.used[depth + 1], s.long[depth + 1] = s.used[depth] + a.costs[item], s.long[depth] + a.time[item]
    for w in range(a.bits.shape[1]):
        s.taken[depth + 1, w] = s.taken[depth, w]
    add(s.taken[depth + 1], item)
    count, after = 0, s.start[depth] + s.sets[depth]
    for place in range(s.sets[depth]):
        if not has(a.bits[s.lists[s.start[depth] + place]], item):
            if after + count == s.lists.shape[0]:
                return False
            s.lists[after + count] = s.lists[s.start[depth] + place]
            count += 1
    s.start[depth + 1], s.sets[depth + 1] = after, count
    return True


@compiled
def search_cover(a: CoverSets, s: CoverSearch, steps: int) -> int:
    """So many steps more: 1 where sets were found, 0 where there are none, -1 where it goes on, 2 without room for it.

    Those found are ``lists[start[d] + at[d]]`` of the depths d below ``depth`` whose ``at`` is less than ``sets``.
    """
    depth = s.depth[0]
    for _ in range(steps):
        if s.at[depth] == -1:
            # New here.
            item = _next_item(a, s, depth)
            if item == -1:
                s.depth[0] = depth
                return 1
            s.item[depth] = item
            if item == -2:
                s.at[depth] = s.sets[depth]
        elif s.at[depth] < s.sets[depth]:
            # The set that was chosen came to nothing.
            s.left[a.kind[s.lists[s.start[depth] + s.at[depth]]]] += 1
        item, count, place = s.item[depth], s.sets[depth], s.at[depth] + 1
        while place < count and not has(a.bits[s.lists[s.start[depth] + place]], item):
            place += 1
        s.at[depth] = min(place, count)
        fits = place == count and s.long[depth] + a.time[item] <= a.limit
        room = True
        if place < count:
            room = _choose(a, s, depth, place)
        elif fits and s.used[depth] + a.costs[item] <= a.room:
            room = _leave(a, s, depth, item)
        elif depth == 0:
            # Sets and the remainder were tried.
            s.depth[0] = 0
            return 0
        else:
            depth -= 1
            continue
        if not room:
            return 2
        depth += 1
        s.at[depth] = -1
    s.depth[0] = depth
    return -1
