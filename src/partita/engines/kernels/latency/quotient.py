"""A placement under moves: what a piece costs is kept up to date, and the longest path through the pieces recomputed.

Pieces are few and most operators are in one, so that a look at all pieces, and at the operators on the CPU one by one,
is all that a trial costs beside the move itself.
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.latency.arrays import LatencyArrays, PlacementState
from partita.engines.kernels.rows import predecessors, successors


@inlined
def relocate(a: LatencyArrays, s: PlacementState, v: int, to: int) -> int:
    """Move an operator to a slot; where it was."""
    slot, readers, into, out, links, degree = s.slot, s.readers, s.into, s.out, s.links, s.degree
    slots = s.into.shape[0]
    at = slot[v]
    for u in predecessors(a.graph, v):
        home, c, all_readers = slot[u], a.comm[u], a.graph.succ_ptr[u + 1] - a.graph.succ_ptr[u]
        before = readers[u, home]
        readers[u, at] -= 1
        if at < slots and at != home:
            if readers[u, at] == 0:
                into[at] -= c
            if home < slots:
                links[home, at] -= 1
                degree[at] -= 1
        if to < slots and to != home:
            if readers[u, to] == 0:
                into[to] += c
            if home < slots:
                links[home, to] += 1
                degree[to] += 1
        readers[u, to] += 1
        if home < slots:
            after = readers[u, home]
            if before == all_readers and after < all_readers:
                out[home] += c
            elif before < all_readers and after == all_readers:
                out[home] -= c
    lo, hi = a.graph.succ_ptr[v], a.graph.succ_ptr[v + 1]
    if hi > lo:
        c = a.comm[v]
        if at < slots:
            if readers[v, at] < hi - lo:
                out[at] -= c
            if readers[v, at] > 0:
                into[at] += c
        if to < slots:
            if readers[v, to] > 0:
                into[to] -= c
            if readers[v, to] < hi - lo:
                out[to] += c
        for i in range(lo, hi):
            home = slot[a.graph.succ[i]]
            if home < slots:
                if at < slots and home != at:
                    links[at, home] -= 1
                    degree[home] -= 1
                if to < slots and home != to:
                    links[to, home] += 1
                    degree[home] += 1
    each = a.shape[1] * a.shape[2]
    if at < slots:
        s.work[at] -= a.acc[v]
        s.held[at // each] -= a.mem[v]
    else:
        s.outside[0] -= 1
        last = s.on_cpu[s.outside[0]]
        s.on_cpu[s.where[v]] = last
        s.where[last] = s.where[v]
    if to < slots:
        s.work[to] += a.acc[v]
        s.held[to // each] += a.mem[v]
    else:
        s.on_cpu[s.outside[0]] = v
        s.where[v] = s.outside[0]
        s.outside[0] += 1
    slot[v] = to
    return int(at)


@inlined
def longest(a: LatencyArrays, s: PlacementState) -> float:
    """When the last operator is done; infinite if pieces wait for each other in a circle."""
    slots = s.into.shape[0]
    slot, start, open_, first = s.slot, s.start, s.open, s.first
    links, stack = s.links, s.stack
    for p in range(slots):
        start[p] = 0.0
        open_[p] = s.degree[p]
        first[p] = -1
    count, edges, ready = s.outside[0], 0, 0
    for i in range(count):
        v = s.on_cpu[i]
        start[slots + v] = 0.0
        open_[slots + v] = a.graph.pred_ptr[v + 1] - a.graph.pred_ptr[v]
        if open_[slots + v] == 0:
            stack[ready] = slots + v
            ready += 1
        for u in predecessors(a.graph, v):
            p = slot[u]
            if p < slots:
                s.target[edges] = v
                s.following[edges] = first[p]
                first[p] = edges
                edges += 1
        for u in successors(a.graph, v):
            p = slot[u]
            if p < slots:
                open_[p] += 1
    for p in range(slots):
        if open_[p] == 0:
            stack[ready] = p
            ready += 1
    done, latest = 0, 0.0
    while ready > 0:
        ready -= 1
        at = stack[ready]
        done += 1
        if at < slots:
            end = start[at] + (s.into[at] + s.work[at] + s.out[at])
            for p in range(slots):
                if links[at, p] > 0:
                    if end > start[p]:
                        start[p] = end
                    open_[p] -= links[at, p]
                    if open_[p] == 0:
                        stack[ready] = p
                        ready += 1
            e = first[at]
            while e >= 0:
                w = slots + s.target[e]
                if end > start[w]:
                    start[w] = end
                open_[w] -= 1
                if open_[w] == 0:
                    stack[ready] = w
                    ready += 1
                e = s.following[e]
        else:
            v = at - slots
            end = start[at] + a.cpu[v]
            for w in successors(a.graph, v):
                p = slot[w]
                if p == slots:
                    p = slots + w
                if end > start[p]:
                    start[p] = end
                open_[p] -= 1
                if open_[p] == 0:
                    stack[ready] = p
                    ready += 1
        if end > latest:
            latest = end
    return latest if done == slots + count else np.inf


@compiled
def reset(a: LatencyArrays, s: PlacementState, slot: Ints) -> float:
    """Recompute everything from the slots, and so drop what rounding has gathered; the latency."""
    slots = s.into.shape[0]
    n = slot.shape[0]
    each = a.shape[1] * a.shape[2]
    s.readers[:] = 0
    s.links[:] = 0
    s.degree[:] = 0
    s.into[:] = 0.0
    s.out[:] = 0.0
    s.work[:] = 0.0
    s.held[:] = 0.0
    s.outside[0] = 0
    for v in range(n):
        s.slot[v] = slot[v]
    for p in range(slots):
        if p % each:
            s.links[p - 1, p] += 1
            s.degree[p] += 1
    for v in range(n):
        p = s.slot[v]
        if p < slots:
            s.work[p] += a.acc[v]
            s.held[p // each] += a.mem[v]
        else:
            s.on_cpu[s.outside[0]] = v
            s.where[v] = s.outside[0]
            s.outside[0] += 1
        leaves = False
        for w in successors(a.graph, v):
            home = s.slot[w]
            s.readers[v, home] += 1
            if home != p:
                leaves = True
                if home < slots:
                    if s.readers[v, home] == 1:
                        s.into[home] += a.comm[v]
                    if p < slots:
                        s.links[p, home] += 1
                        s.degree[home] += 1
        if leaves and p < slots:
            s.out[p] += a.comm[v]
    latency = longest(a, s)
    s.value[1] = latency
    return latency
