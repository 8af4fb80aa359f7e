"""What cannot share a block whose load is at most a target, and which nets are cut whatever the split.

A block of an acyclic split is convex: with two items it holds their *hull*, everything on paths between them. It pays
all nets with a pin inside and a pin that cannot be inside. Where work and these nets exceed the target, the items are
*apart*; a net with two pins apart, or whose pins' hull exceeds the target, is *forced*: every block with a pin pays it.
Each such fact makes others visible. All sets of items are rows of bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bytes, Ints, Words
from partita.engines.kernels.bits import add, has, listed
from partita.engines.kernels.compiled import called, compiled
from partita.engines.kernels.rows import pins_of, sets_with
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.mincut import BlockNetwork, cheapest_block, new_flow, respect_order


class TargetFacts(NamedTuple):
    """What holds at a target.

    ``later`` and ``earlier`` are the closures of the order that include the item (rows without words if not kept),
    ``apart`` the pairs that cannot share a block (no rows if not kept), ``forced`` the cut nets, ``first`` and
    ``last`` the windows of blocks.
    """

    later: Words
    earlier: Words
    apart: Words
    forced: Bytes
    first: Ints
    last: Ints


class Hull(NamedTuple):
    """One hull at a time: its ``row`` of bits and its ``members``, what is ``out`` with it, and marks on nets."""

    row: Words
    members: Ints
    out: Words
    seen: Ints


@called
def _new_hull(a: BlockProblem, parts: TargetFacts) -> Hull:
    """Room for hulls."""
    n, words = parts.later.shape
    row, out = np.zeros(words, np.uint64), np.zeros(words, np.uint64)
    return Hull(row, np.empty(n, np.int32), out, np.full(a.cost.shape[0], -1, np.int32))


@called
def _unavoidable(a: BlockProblem, parts: TargetFacts, hull: Hull, limit: float, stamp: int) -> tuple[int, float, float]:
    """The number of a hull's members, and the least and largest that they make a block pay.

    Lists the members, and what cannot be in that block. The least is infinite where two members exclude each other, and
    need not be complete above ``limit``; the largest is the load of the hull itself. Each call has a ``stamp`` of its
    own.
    """
    row, members, out, seen = hull
    count = listed(row, members)
    low, high = np.int32(0), np.int32(1 << 30)
    least = 0.0
    pairs = parts.apart.shape[0] > 0
    out[:] = np.uint64(0)
    for i in range(count):
        v = members[i]
        least += a.work[v]
        low, high = max(low, parts.first[v]), min(high, parts.last[v])
        if pairs:
            for j in range(out.shape[0]):
                out[j] |= parts.apart[v, j]
    if low > high or least > limit:
        return count, np.inf, np.inf
    if pairs:
        for j in range(out.shape[0]):
            if out[j] & row[j] != np.uint64(0):
                return count, np.inf, np.inf
    most = least
    for i in range(count):
        v = members[i]
        for e in sets_with(a.net, v):
            if seen[e] == stamp:
                continue
            seen[e] = stamp
            paid, cut = parts.forced[e] != 0, parts.forced[e] != 0
            if not paid:
                for x in pins_of(a.net, e):
                    if not has(row, x):
                        cut = True
                        if parts.last[x] < low or parts.first[x] > high or (pairs and has(out, x)):
                            paid = True
                            break
            if paid:
                least += a.cost[e]
                if least > limit:
                    return count, least, np.inf
            if cut:
                most += a.cost[e]
    return count, least, most


@compiled
def force_nets(a: BlockProblem, parts: TargetFacts, limit: float) -> int:
    """Find nets that are cut in every split with loads at most ``limit``; the number of new ones."""
    words = parts.later.shape[1]
    found = 0
    hull, up = _new_hull(a, parts), np.empty(words, np.uint64)
    for e in range(a.cost.shape[0]):
        if parts.forced[e]:
            continue
        hull.row[:] = np.uint64(0)
        up[:] = np.uint64(0)
        for v in a.net.pins[a.net.ptr[e] : a.net.ptr[e + 1]]:
            for j in range(words):
                hull.row[j] |= parts.later[v, j]
                up[j] |= parts.earlier[v, j]
        for j in range(words):
            hull.row[j] &= up[j]
        _, least, _ = _unavoidable(a, parts, hull, limit, e)
        if least > limit:
            parts.forced[e] = 1
            found += 1
    return found


@compiled
def separate_pairs(
    a: BlockProblem, parts: TargetFacts, limit: float, network: BlockNetwork, start: int, count: int
) -> tuple[int, bool]:
    """Find pairs that are apart among those of ``count`` items from ``start`` downwards with items after them.

    The number of new ones, and whether an item costs more than ``limit`` in any block: then there is no split. Pairs
    that the members of their hull do not decide are left to minimum cuts.
    """
    n, words = parts.later.shape
    found, stamp = 0, 0
    hull, flow = _new_hull(a, parts), new_flow(network)
    avoid = np.zeros(n, np.int8)
    supply = np.full(n, np.inf)
    shared = np.zeros((n, words), np.uint64)
    for u in range(start, max(-1, start - count), -1):
        for v in range(u, n):
            if has(parts.apart[u], v):
                continue
            apart = False
            if has(parts.later[u], v):
                for x in a.graph.pred[a.graph.pred_ptr[v] : a.graph.pred_ptr[v + 1]]:
                    apart = apart or (has(parts.later[u], x) and has(parts.apart[u], x))
                for x in a.graph.succ[a.graph.succ_ptr[u] : a.graph.succ_ptr[u + 1]]:
                    apart = apart or (has(parts.earlier[v], x) and has(parts.apart[v], x))
                for j in range(words):
                    hull.row[j] = parts.later[u, j] & parts.earlier[v, j]
            else:
                hull.row[:] = np.uint64(0)
                add(hull.row, u)
                add(hull.row, v)
            if not apart:
                size, least, most = _unavoidable(a, parts, hull, limit, stamp)
                stamp += 1
                apart = least > limit
                if not apart and most > limit and not has(shared[u], v):
                    for x in range(n):
                        avoid[x] = has(hull.out, x)
                    flow.capacity[:] = network.capacity
                    respect_order(network, parts.later[u], parts.earlier[u], flow.capacity)
                    respect_order(network, parts.later[v], parts.earlier[v], flow.capacity)
                    flow.sink[:] = network.sink
                    cost = cheapest_block(network, hull.members[:size], supply, avoid, limit, flow)
                    apart = cost > limit
                    if not apart:
                        # The same set serves other pairs (whose exclusions it may violate: then a cut is missed).
                        for x in range(u + 1):
                            if flow.level[x] >= 0:
                                for y in range(x, n):
                                    if flow.level[y] >= 0:
                                        add(shared[x], y)
            if apart:
                if u == v:
                    return found, True
                add(parts.apart[u], v)
                add(parts.apart[v], u)
                found += 1
    return found, False
