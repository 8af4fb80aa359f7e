"""Memory of a search: the store of downsets and states, which grows, and the working arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Floats, Words, row_masks, zeros
from partita.engines.kernels.throughput import search_state as at
from partita.engines.kernels.throughput.arrays import Arrays
from partita.engines.kernels.throughput.search_state import Scratch, StateStore, Tally

_STATE_FIELDS = ("state_downset", "state_code", "state_parent", "state_kind", "state_replicas")
_DOWNSET_FIELDS = ("downset_hash", "downset_first", "downset_length", "downset_offset", "fewest")


def new_store(codes: int, downsets: int, states: int, pool: int, levels: int = 0) -> StateStore:
    """Room for so many downsets, states, and words of downsets; the empty one with no device used is the first state.

    There are so many ``codes`` of used devices. Of so many ``levels``, counts of devices in use, each has a list of
    states; 0 for a queue.
    """
    store = zeros(
        StateStore,
        ("table", 4 * downsets),
        ("downset_hash downset_first downset_length downset_offset", downsets),
        ("pool", pool),
        ("fewest", (downsets, codes)),
        ("state_downset state_code state_kind state_replicas", states),
        ("counters", 16),
        state_parent=np.full(states, -1, dtype=np.int32),
        state_next=np.full(states if levels else 0, -1, dtype=np.int32),
        heads=np.full(levels, -1, dtype=np.int32),
    )
    store.fewest[0, 1:] = 1 << 30
    store.heads[:1] = 0
    store.counters[at.CURSOR] = -1
    for place in (at.DOWNSETS, at.STATES, at.LEVEL_END):
        store.counters[place] = 1
    return store


def enlarged(s: StateStore, words: int, max_bytes: float) -> StateStore | None:
    """The store with twice the room where it is full; None if that is more than ``max_bytes``.

    An downset has at most so many ``words``. A pool that had room for all of them in every downset keeps it.
    """
    from partita.engines.kernels.throughput.downsets import rehash

    if 2 * sum(int(field.nbytes) for field in s) > max_bytes:
        return None
    downsets, used, states = (int(s.counters[place]) for place in (at.DOWNSETS, at.POOL, at.STATES))
    room, pool = s.downset_hash.shape[0], s.pool.shape[0]
    grown: dict[str, Any] = {}

    def longer(name: str, filled: int) -> None:
        old = getattr(s, name)
        grown[name] = np.zeros((2 * old.shape[0], *old.shape[1:]), dtype=old.dtype)
        grown[name][:filled] = old[:filled]

    if states >= s.state_downset.shape[0]:
        for name in (*_STATE_FIELDS, "state_next"):
            longer(name, states)
        return s._replace(**grown)
    if used + words > pool or (downsets >= room and pool == room * words):
        longer("pool", used)
    if downsets >= room:
        for name in _DOWNSET_FIELDS:
            longer(name, downsets)
        grown["table"] = np.zeros(2 * s.table.shape[0], dtype=np.int32)
        rehash(grown["table"], grown["downset_hash"], downsets)
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
    return zeros(
        Scratch,
        ("words", words),
        ("in_downset missing ready_place ready_items status stamp_item missing_now head memory", n),
        ("net_in stamp_net touched net_out net_here", m),
        ("cover_here cover_memory", covers),
        ("reach queue decision marks", n + 1),
        ("queue_end mark_end", n + 2),
        ("saved", (n + 2, columns)),
        ("places", 8),
        ("remaining", a.work.shape[0]),
        ("most_before", 2),
        zobrist=zobrist,
        full=full,
    )


def downset_masks(s: StateStore, downsets: npt.NDArray[np.integer[Any]], items: int) -> npt.NDArray[np.bool_]:
    """(downsets, n) which items each of these downsets holds."""
    words = np.zeros((len(downsets), math.ceil(items / 64)), dtype=np.uint64)
    for row, downset in zip(words, downsets, strict=True):
        first, length, offset = (
            int(s.downset_first[downset]),
            int(s.downset_length[downset]),
            int(s.downset_offset[downset]),
        )
        row[:first] = np.uint64(0xFFFFFFFFFFFFFFFF)
        row[first : first + length] = s.pool[offset : offset + length]
    return row_masks(words, items)


def stages_found(s: StateStore, items: int) -> list[tuple[int, int, npt.NDArray[np.int32]]]:
    """(kind, replicas, items) of the stages of the split that a search found, in search order."""
    stages = []
    inside = np.ones(items, dtype=bool)
    state, kind, replicas = (int(s.counters[place]) for place in (at.LAST_PARENT, at.LAST_KIND, at.LAST_REPLICAS))
    while state >= 0:
        (before,) = downset_masks(s, s.state_downset[state : state + 1], items)
        stages.append((kind, replicas, np.flatnonzero(inside & ~before).astype(np.int32)))
        inside, kind, replicas = before, int(s.state_kind[state]), int(s.state_replicas[state])
        state = int(s.state_parent[state])
    return stages[::-1]
