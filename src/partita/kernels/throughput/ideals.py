"""The search's memory: ideals as hashed bit windows, states, and the walk from one ideal to another.

Items are numbered topologically, so an ideal is all ones, a short window, and all zeros; only the window is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.kernels.compiled import compiled
from partita.kernels.throughput.arrays import Arrays, Bytes, Floats, Ints, Longs, Words

__all__ = ["Scratch", "Store", "Weights", "clear", "move_to", "rehash", "store_ideal"]

#: Places in ``Store.counters``.
IDEALS, POOL, STATES, CURSOR, LEVEL, LEVEL_END, NODES, LAST_PARENT, LAST_KIND, VALID, STAMP, STATES_EXPANDED = range(12)


class Weights(NamedTuple):
    """What the remaining devices can still take, by remaining-count code (mixed radix over all kinds).

    ``choice[code]`` names the row of ``item`` (rows, n) and ``net`` (rows, m): weights such that the remaining items
    and crossing nets of any completable ideal weigh at most ``budget[code]``; ``capacity[code]`` is the memory of the
    remaining devices together. ``total`` has one more entry, for memory. ``up_item`` (rows, n), ``up_work`` and
    ``down_work`` (K + 1, n) are (lower bounds on) sums over what follows or precedes an item, itself included;
    the last row of ``down_work`` is for ``bytes``, what an item needs at least on any device.
    """

    item: Floats
    net: Floats
    total: Floats
    choice: Longs
    budget: Floats
    capacity: Floats
    radix: Longs
    up_item: Floats
    up_work: Floats
    down_work: Floats
    all_work: Floats
    bytes: Floats


class Store(NamedTuple):
    """Ideals (hashed bit windows), states, and where the search stands."""

    table: Ints
    ideal_hash: Words
    ideal_first: Ints
    ideal_length: Ints
    ideal_offset: Longs
    pool: Words
    fewest: Ints
    state_ideal: Ints
    state_code: Ints
    state_parent: Ints
    state_kind: Bytes
    counters: Longs


class Scratch(NamedTuple):
    """Working arrays; between calls they describe the current ideal."""

    zobrist: Words
    words: Words
    full: Words
    in_ideal: Bytes
    missing: Ints
    net_in: Ints
    ready_place: Ints
    ready_items: Ints
    sums: Floats
    cross: Floats
    done_work: Floats
    status: Bytes
    stamp_item: Ints
    stamp_net: Ints
    missing_now: Ints
    head: Floats
    reach: Ints
    net_out: Ints
    net_here: Ints
    cover_here: Ints
    queue: Ints
    decision: Bytes
    queue_end: Ints
    mark_end: Ints
    marks: Ints
    saved: Floats
    memory_now: Floats
    cover_now: Floats
    memory_next: Floats
    integers: Longs


@compiled
def clear(a: Arrays, x: Scratch) -> None:
    n, m = x.in_ideal.shape[0], a.net_ptr.shape[0] - 1
    x.in_ideal[:] = 0
    x.words[:] = 0
    x.net_in[:] = 0
    x.sums[:] = 0.0
    x.cross[:] = 0.0
    x.done_work[:] = 0.0
    x.status[:] = 0
    x.cover_here[:] = 0
    x.ready_place[:] = -1
    ready = 0
    for v in range(n):
        x.missing[v] = a.pred_ptr[v + 1] - a.pred_ptr[v]
        if x.missing[v] == 0:
            x.ready_place[v] = ready
            x.ready_items[ready] = v
            ready += 1
    x.integers[0] = ready  # ready items
    x.integers[1] = 0  # items inside
    x.integers[2] = 0  # first word that is not full
    x.integers[3] = 0  # words from here on are empty
    x.integers[4] = 0  # moves since the sums were last computed afresh
    for e in range(m):
        x.net_here[e] = 0


@compiled
def _set_ready(x: Scratch, v: int) -> None:
    ready = x.missing[v] == 0 and x.in_ideal[v] == 0
    place = x.ready_place[v]
    if ready and place < 0:
        x.ready_place[v] = x.integers[0]
        x.ready_items[x.integers[0]] = v
        x.integers[0] += 1
    elif not ready and place >= 0:
        x.integers[0] -= 1
        moved = x.ready_items[x.integers[0]]
        x.ready_items[place] = moved
        x.ready_place[moved] = place
        x.ready_place[v] = -1


@compiled
def _toggle(a: Arrays, w: Weights, x: Scratch, v: int) -> None:
    inside = x.in_ideal[v] == 0
    sign = 1 if inside else -1
    x.in_ideal[v] = 1 if inside else 0
    rows = w.item.shape[0]
    x.integers[1] += sign
    for y in range(rows):
        x.sums[y] += sign * w.item[y, v]
    x.sums[rows] += sign * x.memory_next[v]
    for k in range(a.work.shape[0]):
        if a.work[k, v] < np.inf:
            x.done_work[k] += sign * a.work[k, v]
    x.done_work[a.work.shape[0]] += sign * w.bytes[v]
    for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
        e = a.item_nets[p]
        size = a.net_ptr[e + 1] - a.net_ptr[e]
        before = x.net_in[e]
        after = before + sign
        x.net_in[e] = after
        if (before > 0 and before < size) != (after > 0 and after < size):
            change = 1 if after > 0 and after < size else -1
            for y in range(w.net.shape[0]):
                x.cross[y] += change * w.net[y, e]
    for p in range(a.succ_ptr[v], a.succ_ptr[v + 1]):
        x.missing[a.succ[p]] -= sign
        _set_ready(x, a.succ[p])
    _set_ready(x, v)


@compiled
def _refresh(a: Arrays, w: Weights, x: Scratch) -> None:
    """Compute the running sums afresh, so that rounding errors do not build up."""
    x.sums[:] = 0.0
    x.cross[:] = 0.0
    x.done_work[:] = 0.0
    for v in range(x.in_ideal.shape[0]):
        if x.in_ideal[v] != 0:
            for y in range(w.item.shape[0]):
                x.sums[y] += w.item[y, v]
            x.sums[w.item.shape[0]] += x.memory_next[v]
            for k in range(a.work.shape[0]):
                if a.work[k, v] < np.inf:
                    x.done_work[k] += a.work[k, v]
            x.done_work[a.work.shape[0]] += w.bytes[v]
    for e in range(a.net_ptr.shape[0] - 1):
        if x.net_in[e] > 0 and x.net_in[e] < a.net_ptr[e + 1] - a.net_ptr[e]:
            for y in range(w.net.shape[0]):
                x.cross[y] += w.net[y, e]


@compiled
def move_to(a: Arrays, w: Weights, s: Store, x: Scratch, ideal: int) -> None:
    """Change the current ideal into the stored one, item by item."""
    first, length = s.ideal_first[ideal], s.ideal_length[ideal]
    offset = s.ideal_offset[ideal]
    low = min(x.integers[2], first)
    high = max(x.integers[3], first + length)
    one = np.uint64(1)
    for i in range(low, high):
        if i < first:
            target = x.full[i]
        elif i < first + length:
            target = s.pool[offset + i - first]
        else:
            target = np.uint64(0)
        changed = x.words[i] ^ target
        if changed == 0:
            continue
        x.words[i] = target
        v = i * 64
        while changed != 0:
            if changed & one != 0:
                _toggle(a, w, x, v)
                x.integers[4] += 1
            changed = changed >> one
            v += 1
    x.integers[2] = first
    x.integers[3] = first + length
    if x.integers[4] > 20000:
        x.integers[4] = 0
        _refresh(a, w, x)


@compiled
def store_ideal(s: Store, x: Scratch, code: np.uint64, top: int) -> int:
    """Number of the ideal in ``x.words``; -1 when the store must grow first. ``top`` words may be non-empty."""
    first = x.integers[2]
    while first < top and x.words[first] == x.full[first]:
        first += 1
    end = top
    while end > first and x.words[end - 1] == 0:
        end -= 1
    length = end - first
    mask = s.table.shape[0] - 1
    slot = int(code >> np.uint64(20)) & mask
    while s.table[slot] != 0:
        known = s.table[slot] - 1
        if s.ideal_hash[known] == code and s.ideal_first[known] == first and s.ideal_length[known] == length:
            offset = s.ideal_offset[known]
            same = True
            for i in range(length):
                if s.pool[offset + i] != x.words[first + i]:
                    same = False
                    break
            if same:
                return int(known)
        slot = (slot + 1) & mask
    number, used = s.counters[IDEALS], s.counters[POOL]
    if number >= s.ideal_hash.shape[0] or used + length > s.pool.shape[0]:
        return -1
    s.table[slot] = number + 1
    s.ideal_hash[number] = code
    s.ideal_first[number] = first
    s.ideal_length[number] = length
    s.ideal_offset[number] = used
    for i in range(length):
        s.pool[used + i] = x.words[first + i]
    for c in range(s.fewest.shape[1]):
        s.fewest[number, c] = 1 << 30
    s.counters[IDEALS] = number + 1
    s.counters[POOL] = used + length
    return int(number)


@compiled
def rehash(table: Ints, codes: Words, count: int) -> None:
    """Fill an empty hash table with the ideals 1 … count − 1 (the empty ideal is never looked up)."""
    mask = table.shape[0] - 1
    for number in range(1, count):
        slot = int(codes[number] >> np.uint64(20)) & mask
        while table[slot] != 0:
            slot = (slot + 1) & mask
        table[slot] = number + 1
