"""All stages of a mesh: what they do and exchange, with the fastest configurations and all memory there may be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bytes, Floats
from partita.engines.kernels.bits import has
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.hybrid.arrays import HybridWork
from partita.engines.kernels.hybrid.passing import StageOptions
from partita.engines.kernels.hybrid.stages import lacking, subset
from partita.engines.kernels.rows import row_of


class ReplicaExchanges(NamedTuple):
    """What replicas of a mesh exchange, (n,) by layer in topological order: see ``step.costs.Exchanges``.

    ``overlap`` and ``occupied`` are (1,).
    """

    forward: Floats
    backward: Floats
    weight_gradients: Floats
    gather_each: Floats
    reduce_each: Floats
    gather_once: Floats
    reduce_once: Floats
    update: Floats
    state: Floats
    whole_weights: Floats
    whole_gradients: Floats
    edge_bytes: Floats
    edge_in: Floats
    edge_out: Floats
    overlap: Bytes
    occupied: Floats


@compiled
def fill_option(w: HybridWork, e: ReplicaExchanges, p: StageOptions, o: int, state: Floats) -> None:
    """Fill all stages of an option whose layers have its degree, and ``state`` (Z, Z), the bytes they always hold.

    The same sums as ``step.mesh.DeviceMesh.cost``, of the fastest configurations.
    """
    h, r = w.arrays, p.degree[o]
    sets, n = h.members.shape[0], e.forward.shape[0]
    row = np.empty(n, dtype=np.int64)
    for inner in range(sets):
        if w.stop[0] != 0:
            return
        for outer in range(inner + 1, sets):
            if not subset(h.members, inner, outer) or lacking(h, r, inner, outer):
                continue
            count = 0
            for v in range(n):
                if has(h.members[outer], v) and not has(h.members[inner], v):
                    row[count] = v
                    count += 1
            forward, backward, gradients, held, once = 0.0, 0.0, 0.0, 0.0, 0.0
            for k in range(count):
                v = row[k]
                forward += e.forward[v]
                backward += e.backward[v]
                gradients += e.weight_gradients[v]
                held += e.state[v]
                once += e.update[v]
            pair, whole = e.whole_weights[row[0]], 0.0
            for k in range(count):
                v = row[k]
                if k == 0:
                    forward += e.gather_each[v]
                else:
                    forward += exposed(e.gather_each[v], e.forward[row[k - 1]], e.occupied[0])
                    pair = max(pair if k > 1 else 0.0, e.whole_weights[row[k - 1]] + e.whole_weights[v])
                    behind = e.reduce_each[row[k + 1]] if k + 1 < count else 0.0
                    backward += exposed(e.gather_each[row[k - 1]] + behind, e.backward[v], e.occupied[0])
                whole = max(whole, e.whole_gradients[v])
            if count > 1:
                backward += exposed(e.reduce_each[row[1]], e.backward[row[0]], e.occupied[0])
            once += e.reduce_each[row[0]]
            if e.overlap[0]:
                left, there, end, busy, whole_exchange = 0.0, 0.0, 0.0, 0.0, 0.0
                for k in range(count - 1, -1, -1):
                    left = max(0.0, left - e.backward[row[k]]) + e.reduce_once[row[k]]
                for k in range(count):
                    v = row[k]
                    there += e.gather_once[v]
                    end = max(end, there) + e.forward[v]
                    busy += e.forward[v]
                    whole_exchange += e.reduce_once[v] + e.gather_once[v]
                waited = left + end - busy
                once += waited + e.occupied[0] * (whole_exchange - waited)
            else:
                for k in range(count):
                    once += e.reduce_once[row[k]] + e.gather_once[row[k]]
            state[inner, outer] = held + pair + whole
            enter, leave, gathered, returned = 0.0, 0.0, 0.0, 0.0
            for edge in row_of(h.cross_ptr, h.cross, outer):
                if not has(h.members[inner], h.target[edge]):
                    enter += e.edge_bytes[edge]
                    gathered += e.edge_in[edge]
            for edge in row_of(h.cross_ptr, h.cross, inner):
                if has(h.members[outer], h.source[edge]):
                    leave += e.edge_bytes[edge]
                    returned += e.edge_out[edge]
            p.forward[inner, outer, o], p.backward[inner, outer, o] = forward + gathered, backward + returned
            p.gradients[inner, outer, o], p.once[inner, outer, o] = gradients, once
            p.enter[inner, outer], p.leave[inner, outer] = enter, leave


@compiled
def exposed(exchange: float, work: float, occupied: float) -> float:
    """By how much an exchange makes the work longer that hides it: see ``costs.collectives``."""
    return max(occupied * exchange, exchange - (1.0 - occupied) * work)
