"""The compiled inner loops: plain arrays in and out. Importing this package compiles and imports nothing."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["cached", "warm_up"]


def cached() -> bool:
    """Whether the kernels of the contiguous solver have been compiled on this machine before."""
    from partita.kernels.throughput.search import search

    folder = str(search.stats.cache_path)  # type: ignore[attr-defined]
    if not os.path.isdir(folder):
        return False
    source = os.path.getmtime(os.path.join(os.path.dirname(__file__), "throughput", "search.py"))
    indices = [name for name in os.listdir(folder) if name.startswith("search.search-") and name.endswith(".nbi")]
    return any(os.path.getmtime(os.path.join(folder, name)) >= source for name in indices)


def warm_up() -> None:
    """Compile every kernel of the contiguous solver, or load it if that was done before, on two items and one net."""
    import numpy as np

    from partita.kernels.throughput import closures, ideals, search, slicing
    from partita.kernels.throughput.anneal_acyclic import anneal
    from partita.kernels.throughput.arrays import as_arrays
    from partita.kernels.throughput.search_state import new_scratch, new_store

    none: list[Any] = []
    a = as_arrays(
        {
            "fixed": [1.0, 1.0],
            "active": [1.0, 1.0],
            "workspace": [1.0, 1.0],
            "item_net_ptr": [0, 1, 2],
            "item_covers": none,
            "cover_fixed": none,
            "cover_active": none,
            "work": [[1.0, 1.0]],
            "net_ptr": [0, 2],
            "net_pins": [0, 1],
            "item_nets": [0, 0],
            "net_cost": [[1.0]],
            "net_source": [0],
            "net_entering": [0.0],
            "succ_ptr": [0, 1, 1],
            "succ": [1],
            "pred_ptr": [0, 0, 1],
            "pred": [0],
            "item_cover_ptr": [0, 0, 0],
            "memory": [1e9],
            "devices": [2],
            "in_flight": [0, 1, 1],
            "limits": [1, 0, 0, 0],
        }
    )
    one, stop = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    digits = np.zeros((1, 1), dtype=np.int64)
    order = np.empty(2, dtype=np.int32)
    slicing.linearise(a, np.zeros(2, dtype=np.int64), np.zeros(2), 2, order)
    label = np.zeros(2, dtype=np.int32)
    slicing.segment_loads(a, label, np.zeros(1, dtype=np.int32), np.zeros(1))
    table = np.zeros((3, 1), dtype=np.int32)
    slicing.slice_order(a, order, 9.0, one, one, digits, table, table.copy(), np.zeros((3, 1), dtype=np.int8), stop)
    sums = np.zeros((1, 2))
    closures.closure_sums(a.succ_ptr, a.succ, np.ones((1, 2)), False, sums)
    closures.chain_sums(a.succ_ptr, a.succ, np.ones((1, 2)), False, sums)
    ones, words = np.ones((1, 2)), np.array([3, 5], dtype=np.uint64)
    w = ideals.Weights(
        ones, np.ones((1, 1)), np.zeros(2), np.zeros(3, dtype=np.int64), np.full(3, 9.0), np.full(3, 1e9),
        np.ones(1, dtype=np.int64), sums, ones, np.ones((2, 2)), np.ones(1), np.ones(2),
    )  # fmt: skip
    store = new_store(1)
    scratch, limit = new_scratch(a, words, 1), np.full(1, np.inf)
    search.search(a, w, store, scratch, 9.0, limit, True, one, digits, one, 99, stop, stop)
    ideals.rehash(np.zeros(64, dtype=np.int32), store.ideal_hash, 2)
    anneal(a, np.zeros(2, dtype=np.int32), np.zeros(2, dtype=np.int32), 9.0, 4.0, 0.3, 0.01, 10, 1, stop)
