"""New stores and working arrays for the search kernel."""

from __future__ import annotations

import math

import numpy as np

from partita.kernels.throughput.arrays import Arrays, Words
from partita.kernels.throughput.ideals import IDEALS, LEVEL_END, STATES, Scratch, Store

__all__ = ["new_scratch", "new_store"]


def new_store(codes: int) -> Store:
    """Room for a few thousand states; the empty ideal with no device used is the first."""
    ideals, states, pool = 1 << 12, 1 << 12, 1 << 13
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
        counters=np.zeros(16, dtype=np.int64),
    )
    store.fewest[0, 1:] = 1 << 30
    for place in (IDEALS, STATES, LEVEL_END):
        store.counters[place] = 1
    return store


def new_scratch(a: Arrays, zobrist: Words, rows: int) -> Scratch:
    """Working arrays for ``rows`` rows of weights; ``zobrist`` has a random word for every item."""
    n = a.work.shape[1]
    m, covers = a.net_ptr.shape[0] - 1, a.cover_fixed.shape[0]
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
        sums=np.zeros(rows + 1),
        cross=np.zeros(rows),
        done_work=np.zeros(a.work.shape[0] + 1),
        status=np.zeros(n, int8),
        stamp_item=np.zeros(n, int32),
        stamp_net=np.zeros(m, int32),
        missing_now=np.zeros(n, int32),
        head=np.zeros(n),
        reach=np.zeros(n + 1, int32),
        net_out=np.zeros(m, int32),
        net_here=np.zeros(m, int32),
        cover_here=np.zeros(covers, int32),
        queue=np.zeros(n + 1, int32),
        decision=np.zeros(n + 1, int8),
        queue_end=np.zeros(n + 2, int32),
        mark_end=np.zeros(n + 2, int32),
        marks=np.zeros(n + 1, int32),
        saved=np.zeros((n + 2, 14)),
        memory_now=np.zeros(n),
        cover_now=np.zeros(covers),
        memory_next=np.zeros(n),
        integers=np.zeros(8, dtype=np.int64),
    )
