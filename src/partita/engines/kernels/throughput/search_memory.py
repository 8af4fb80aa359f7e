"""Memory of a search: the store of ideals and states, which grows, and the working arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Floats, Words, row_masks
from partita.engines.kernels.throughput import search_state as at
from partita.engines.kernels.throughput.arrays import Arrays
from partita.engines.kernels.throughput.search_state import Scratch, Store, Tally

_STATE_FIELDS = ("state_ideal", "state_code", "state_parent", "state_kind", "state_replicas")
_IDEAL_FIELDS = ("ideal_hash", "ideal_first", "ideal_length", "ideal_offset", "fewest")


def new_store(codes: int, ideals: int, states: int, pool: int, levels: int = 0) -> Store:
    """The empty ideal with no device used is the first state.

    Parameters
    ----------
    codes
        Number of codes of used devices.
    ideals, states, pool
        Room for so many ideals, states, and words of ideals.
    levels
        Counts of devices in use that have a list of states each; 0 for a queue.
    """
    store = Store(
        table=np.zeros(4 * ideals, dtype=np.int32),
        ideal_hash=np.zeros(ideals, dtype=np.uint64),
        ideal_first=np.zeros(ideals, dtype=np.int32),
        ideal_length=np.zeros(ideals, dtype=np.int32),
        ideal_offset=np.zeros(ideals, dtype=np.int64),
        pool=np.zeros(pool, dtype=np.uint64),
        fewest=np.zeros((ideals, codes), dtype=np.int32),
        state_ideal=np.zeros(states, dtype=np.int32),
        state_code=np.zeros(states, dtype=np.int32),
        state_parent=np.full(states, -1, dtype=np.int32),
        state_kind=np.zeros(states, dtype=np.int8),
        state_replicas=np.zeros(states, dtype=np.int32),
        state_next=np.full(states if levels else 0, -1, dtype=np.int32),
        heads=np.full(levels, -1, dtype=np.int32),
        counters=np.zeros(16, dtype=np.int64),
    )
    store.fewest[0, 1:] = 1 << 30
    store.heads[:1] = 0
    store.counters[at.CURSOR] = -1
    for place in (at.IDEALS, at.STATES, at.LEVEL_END):
        store.counters[place] = 1
    return store


def enlarged(s: Store, words: int, max_bytes: float) -> Store | None:
    """The store with twice the room where it is full; None if that is more than ``max_bytes``.

    An ideal has at most so many ``words``. A pool that had room for all of them in every ideal keeps it.
    """
    from partita.engines.kernels.throughput.ideals import rehash

    if 2 * sum(int(field.nbytes) for field in s) > max_bytes:
        return None
    ideals, used, states = (int(s.counters[place]) for place in (at.IDEALS, at.POOL, at.STATES))
    room, pool = s.ideal_hash.shape[0], s.pool.shape[0]
    grown: dict[str, Any] = {}

    def longer(name: str, filled: int) -> None:
        old = getattr(s, name)
        grown[name] = np.zeros((2 * old.shape[0], *old.shape[1:]), dtype=old.dtype)
        grown[name][:filled] = old[:filled]

    if states >= s.state_ideal.shape[0]:
        for name in (*_STATE_FIELDS, "state_next"):
            longer(name, states)
        return s._replace(**grown)
    if used + words > pool or (ideals >= room and pool == room * words):
        longer("pool", used)
    if ideals >= room:
        for name in _IDEAL_FIELDS:
            longer(name, ideals)
        grown["table"] = np.zeros(2 * s.table.shape[0], dtype=np.int32)
        rehash(grown["table"], grown["ideal_hash"], ideals)
    return s._replace(**grown)


def new_tally(item: Floats, net: Floats) -> Tally:
    """Sums of (rows, n) weights of items and (q, m) weights of nets."""
    item, net = np.ascontiguousarray(item.T), np.ascontiguousarray(net.T)
    return Tally(item, net, np.zeros(item.shape[1]), np.zeros(net.shape[1]))


def random_words(items: int) -> Words:
    """A random word for every item: sets of items are told apart by those of their items together."""
    words = np.random.default_rng(20240229).integers(0, 2**63, size=2 * items, dtype=np.uint64)
    return np.asarray(words[::2] ^ (words[1::2] << np.uint64(1)), dtype=np.uint64)


def new_scratch(a: Arrays, zobrist: Words, columns: int) -> Scratch:
    """Working arrays that save so many numbers a depth; ``zobrist`` as by ``random_words``."""
    n, m, covers = a.work.shape[1], a.net.ptr.shape[0] - 1, a.cover_fixed.shape[0]
    words = math.ceil(n / 64)
    full = np.full(words, 0xFFFFFFFFFFFFFFFF, dtype=np.uint64)
    if n % 64:
        full[-1] = np.uint64((1 << (n % 64)) - 1)
    int32, int8 = np.int32, np.int8
    return Scratch(
        zobrist=zobrist,
        words=np.zeros(words, dtype=np.uint64),
        full=full,
        in_ideal=np.zeros(n, int8),
        missing=np.zeros(n, int32),
        net_in=np.zeros(m, int32),
        ready_place=np.zeros(n, int32),
        ready_items=np.zeros(n, int32),
        places=np.zeros(8, dtype=np.int64),
        status=np.zeros(n, int8),
        stamp_item=np.zeros(n, int32),
        stamp_net=np.zeros(m, int32),
        missing_now=np.zeros(n, int32),
        head=np.zeros(n),
        reach=np.zeros(n + 1, int32),
        touched=np.zeros(m, int32),
        net_out=np.zeros(m, int32),
        net_here=np.zeros(m, int32),
        cover_here=np.zeros(covers, int32),
        queue=np.zeros(n + 1, int32),
        decision=np.zeros(n + 1, int8),
        queue_end=np.zeros(n + 2, int32),
        mark_end=np.zeros(n + 2, int32),
        marks=np.zeros(n + 1, int32),
        saved=np.zeros((n + 2, columns)),
        memory=np.zeros(n),
        cover_memory=np.zeros(covers),
        remaining=np.zeros(a.work.shape[0], dtype=np.int64),
        most_before=np.zeros(2),
    )


def ideal_masks(s: Store, ideals: npt.NDArray[np.integer[Any]], items: int) -> npt.NDArray[np.bool_]:
    """(ideals, n) which items each of these ideals holds."""
    words = np.zeros((len(ideals), math.ceil(items / 64)), dtype=np.uint64)
    for row, ideal in zip(words, ideals, strict=True):
        first, length, offset = int(s.ideal_first[ideal]), int(s.ideal_length[ideal]), int(s.ideal_offset[ideal])
        row[:first] = np.uint64(0xFFFFFFFFFFFFFFFF)
        row[first : first + length] = s.pool[offset : offset + length]
    return row_masks(words, items)


def stages_found(s: Store, items: int) -> list[tuple[int, int, npt.NDArray[np.int32]]]:
    """(kind, replicas, items) of the stages of the split that a search found, in search order."""
    stages = []
    inside = np.ones(items, dtype=bool)
    state, kind, replicas = (int(s.counters[place]) for place in (at.LAST_PARENT, at.LAST_KIND, at.LAST_REPLICAS))
    while state >= 0:
        (before,) = ideal_masks(s, s.state_ideal[state : state + 1], items)
        stages.append((kind, replicas, np.flatnonzero(inside & ~before).astype(np.int32)))
        inside, kind, replicas = before, int(s.state_kind[state]), int(s.state_replicas[state])
        state = int(s.state_parent[state])
    return stages[::-1]
