"""Memory of one search: the store of ideals and states, which grows, and the working arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from partita.kernels.throughput.arrays import Words
from partita.kernels.throughput.variant_arrays import VariantScratch, VariantStore
from partita.problems.throughput.solvers.variant_view import VariantView

__all__ = ["enlarged", "new_scratch", "new_store"]


def enlarged(s: VariantStore, max_bytes: float) -> VariantStore | None:
    """The store with twice the room where it is full; None if that is more than ``max_bytes``."""
    from partita.kernels.throughput.ideals import rehash
    from partita.kernels.throughput.variant_ideals import IDEALS, STATES

    ideals, states = int(s.counters[IDEALS]), int(s.counters[STATES])
    if 2 * sum(int(field.nbytes) for field in s) > max_bytes:
        return None
    grown: dict[str, Any] = {}

    def longer(name: str, filled: int) -> None:
        old = getattr(s, name)
        grown[name] = np.zeros((2 * old.shape[0], *old.shape[1:]), dtype=old.dtype)
        grown[name][:filled] = old[:filled]

    if states >= s.state_ideal.shape[0]:
        for name in ("state_ideal", "state_code", "state_parent", "state_kind", "state_replicas", "state_next"):
            longer(name, states)
    else:
        for name in ("ideal_hash", "words", "fewest"):
            longer(name, ideals)
        grown["table"] = np.zeros(2 * s.table.shape[0], dtype=np.int32)
        rehash(grown["table"], grown["ideal_hash"], ideals)
    return s._replace(**grown)


def new_store(view: VariantView) -> VariantStore:
    """An empty store with the empty ideal and state 0 at level 0."""
    from partita.kernels.throughput import variant_ideals as kernel

    ideals, states, devices = 1 << 10, 1 << 11, int(view.arrays.devices.sum())
    store = VariantStore(
        table=np.zeros(4 * ideals, dtype=np.int32),
        ideal_hash=np.zeros(ideals, dtype=np.uint64),
        words=np.zeros((ideals, math.ceil(view.items / 64)), dtype=np.uint64),
        fewest=np.zeros((ideals, view.codes), dtype=np.int32),
        state_ideal=np.zeros(states, dtype=np.int32),
        state_code=np.zeros(states, dtype=np.int32),
        state_parent=np.full(states, -1, dtype=np.int32),
        state_kind=np.zeros(states, dtype=np.int8),
        state_replicas=np.zeros(states, dtype=np.int32),
        state_next=np.full(states, -1, dtype=np.int32),
        heads=np.full(devices + 1, -1, dtype=np.int32),
        counters=np.zeros(8, dtype=np.int64),
    )
    store.fewest[0, 1:] = 1 << 30
    store.heads[0] = 0
    store.counters[kernel.IDEALS] = store.counters[kernel.STATES] = 1
    store.counters[kernel.CURSOR] = -1
    return store


def new_scratch(view: VariantView, zobrist: Words, rules: int) -> VariantScratch:
    """Working arrays for a number of capacity rules."""
    a, n = view.arrays, view.items
    m, covers, lines = a.net_ptr.shape[0] - 1, a.cover_fixed.shape[0], len(view.shape.limit)
    int32, int8 = np.int32, np.int8
    return VariantScratch(
        zobrist=zobrist,
        words=np.zeros(math.ceil(n / 64), dtype=np.uint64),
        in_ideal=np.zeros(n, int8),
        missing=np.zeros(n, int32),
        net_in=np.zeros(m, int32),
        status=np.zeros(n, int8),
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
        value=np.zeros((n + 2, lines)),
        lost=np.zeros((n + 2, rules)),
        cross=np.zeros((n + 2, rules)),
        held=np.zeros((n + 2, 4)),
        memory=np.zeros(n),
        cover_memory=np.zeros(covers),
        row=np.zeros(rules, dtype=np.int64),
        rest=np.zeros(rules),
        reachable=np.zeros(rules),
        trial=np.zeros(lines),
    )
