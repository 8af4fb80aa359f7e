"""Topological orders by keys: what searches over orders slice.

Source: Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference" (ICML 2024), App. B (sorting by
priorities).
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.graph_arrays import GraphArrays
from partita.engines.kernels.rows import successors


@inlined
def _sooner(stage: Longs, second: Floats, u: int, v: int) -> bool:
    """Whether u comes before v by its keys."""
    return bool(stage[u] < stage[v] or (stage[u] == stage[v] and second[u] < second[v]))


@compiled
def linearise(graph: GraphArrays, stage: Longs, key: Floats, mode: int, order: Ints) -> None:
    """A topological order whose first key is ``stage`` (which must rise along edges).

    Second key, from ``key`` in [0, 1): ``mode`` 0 that itself; 1 last in, first out, of what becomes ready at once by
    it, largest first; 2 a predecessor's moved a little by its own, which keeps branches together.
    """
    n = stage.shape[0]
    second = key.copy()
    missing, pending, heap = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n + 1, np.int32)
    count, size = 0, 0
    for v in range(n):
        missing[v] = graph.pred_ptr[v + 1] - graph.pred_ptr[v]
        if missing[v] == 0:
            pending[count] = v
            count += 1
    for place in range(n):
        for i in range(count):
            v = pending[i]
            if mode == 1:
                second[v] = -place - key[v]
            size += 1
            pos = size
            while pos > 1 and _sooner(stage, second, v, heap[pos // 2]):
                heap[pos] = heap[pos // 2]
                pos //= 2
            heap[pos] = v
        u, moved = heap[1], heap[size]
        size -= 1
        pos = 1
        while 2 * pos <= size:
            child = 2 * pos
            if child < size and _sooner(stage, second, heap[child + 1], heap[child]):
                child += 1
            if not _sooner(stage, second, heap[child], moved):
                break
            heap[pos] = heap[child]
            pos = child
        heap[pos] = moved
        order[place] = u
        count = 0
        for w in successors(graph, u):
            missing[w] -= 1
            if missing[w] == 0:
                if mode == 2:
                    second[w] = second[u] + 0.1 * (key[w] - 0.5)
                pending[count] = w
                count += 1


def order_by(graph: GraphArrays, key: Floats, mode: int, stage: Ints | Longs | None = None) -> Ints:
    """The order that ``linearise`` makes, of one stage if none are given."""
    order = np.empty(key.shape[0], dtype=np.int32)
    stages = np.zeros(key.shape[0], dtype=np.int64) if stage is None else stage.astype(np.int64)
    linearise(graph, stages, key, mode, order)
    return order
