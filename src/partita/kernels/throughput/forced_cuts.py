"""What cannot share a block whose load is at most a target, and which nets are cut whatever the split.

A block of an acyclic split is convex: with two items it holds their *hull*, everything on paths between them. It pays
all nets with a pin inside and a pin that cannot be inside. Where work and these nets exceed the target, the items are
*apart*; a net with two pins apart, or whose pins' hull exceeds the target, is *forced*: every block with a pin pays it.
Each such fact makes others visible. All sets of items are rows of bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.kernels.compiled import compiled
from partita.kernels.throughput.arrays import Bytes, Ints, Words
from partita.kernels.throughput.bits import add, has
from partita.kernels.throughput.blocks import BlockProblem
from partita.kernels.throughput.mincut import Network, cheapest_block, new_flow, respect_rows


class Parts(NamedTuple):
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


@compiled
def _listed(row: Words, members: Ints) -> int:
    """Items of a row, ascending; their number."""
    count = 0
    one, zero = np.uint64(1), np.uint64(0)
    for j in range(row.shape[0]):
        rest = row[j]
        while rest != zero:
            low = rest & (~rest + one)
            # The place of a power of two, without a table.
            place = 0
            if low & np.uint64(0xFFFFFFFF00000000):
                place += 32
            if low & np.uint64(0xFFFF0000FFFF0000):
                place += 16
            if low & np.uint64(0xFF00FF00FF00FF00):
                place += 8
            if low & np.uint64(0xF0F0F0F0F0F0F0F0):
                place += 4
            if low & np.uint64(0xCCCCCCCCCCCCCCCC):
                place += 2
            if low & np.uint64(0xAAAAAAAAAAAAAAAA):
                place += 1
            members[count] = 64 * j + place
            count += 1
            rest ^= low
    return count


@compiled
def _unavoidable(
    a: BlockProblem,
    parts: Parts,
    hull: Words,
    members: Ints,
    count: int,
    limit: float,
    seen: Ints,
    stamp: int,
    out: Words,
) -> tuple[float, float]:
    """Least and largest that the members of a hull make a block pay; ``out`` becomes what cannot be in that block.

    The least is infinite where two members exclude each other, and need not be complete above ``limit``; the largest is
    the load of the hull itself.
    """
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
        return np.inf, np.inf
    if pairs:
        for j in range(out.shape[0]):
            if out[j] & hull[j] != np.uint64(0):
                return np.inf, np.inf
    most = least
    for i in range(count):
        v = members[i]
        for p in range(a.item_net_ptr[v], a.item_net_ptr[v + 1]):
            e = a.item_nets[p]
            if seen[e] == stamp:
                continue
            seen[e] = stamp
            paid, cut = parts.forced[e] != 0, parts.forced[e] != 0
            if not paid:
                for q in range(a.net_ptr[e], a.net_ptr[e + 1]):
                    x = a.net_pins[q]
                    if not has(hull, x):
                        cut = True
                        if parts.last[x] < low or parts.first[x] > high or (pairs and has(out, x)):
                            paid = True
                            break
            if paid:
                least += a.cost[e]
                if least > limit:
                    return least, np.inf
            if cut:
                most += a.cost[e]
    return least, most


@compiled
def force_nets(a: BlockProblem, parts: Parts, limit: float) -> int:
    """Find nets that are cut in every split with loads at most ``limit``; the number of new ones."""
    n, words = parts.later.shape
    found = 0
    members = np.empty(n, np.int32)
    seen = np.full(a.cost.shape[0], -1, np.int32)
    hull, up = np.empty(words, np.uint64), np.empty(words, np.uint64)
    out = np.empty(words, np.uint64)
    for e in range(a.cost.shape[0]):
        if parts.forced[e]:
            continue
        hull[:] = np.uint64(0)
        up[:] = np.uint64(0)
        for q in range(a.net_ptr[e], a.net_ptr[e + 1]):
            v = a.net_pins[q]
            for j in range(words):
                hull[j] |= parts.later[v, j]
                up[j] |= parts.earlier[v, j]
        for j in range(words):
            hull[j] &= up[j]
        count = _listed(hull, members)
        least, _ = _unavoidable(a, parts, hull, members, count, limit, seen, e, out)
        if least > limit:
            parts.forced[e] = 1
            found += 1
    return found


@compiled
def separate_pairs(
    a: BlockProblem, parts: Parts, limit: float, network: Network, tiny: float, cuts: int, start: int, count: int
) -> tuple[int, int, bool]:
    """Find pairs that are apart among those of ``count`` items from ``start`` downwards with items after them.

    Pairs that the members of their hull do not decide are left to minimum cuts, at most ``cuts`` of them.

    Returns
    -------
    int, int, bool
        New pairs, cuts used, and whether an item costs more than ``limit`` in any block: then there is no split.
    """
    n, words = parts.later.shape
    found, used = 0, 0
    members = np.empty(n, np.int32)
    seen = np.full(a.cost.shape[0], -1, np.int32)
    hull, out = np.empty(words, np.uint64), np.empty(words, np.uint64)
    flow = new_flow(network)
    avoid = np.zeros(n, np.int8)
    supply = np.full(n, np.inf)
    shared = np.zeros((n, words), np.uint64)
    stamp = 0
    for u in range(start, max(-1, start - count), -1):
        for v in range(u, n):
            if has(parts.apart[u], v):
                continue
            apart = False
            if has(parts.later[u], v):
                for p in range(a.pred_ptr[v], a.pred_ptr[v + 1]):
                    x = a.pred[p]
                    apart = apart or (has(parts.later[u], x) and has(parts.apart[u], x))
                for p in range(a.succ_ptr[u], a.succ_ptr[u + 1]):
                    x = a.succ[p]
                    apart = apart or (has(parts.earlier[v], x) and has(parts.apart[v], x))
                for j in range(words):
                    hull[j] = parts.later[u, j] & parts.earlier[v, j]
            else:
                hull[:] = np.uint64(0)
                add(hull, u)
                add(hull, v)
            if not apart:
                size = _listed(hull, members)
                least, most = _unavoidable(a, parts, hull, members, size, limit, seen, stamp, out)
                stamp += 1
                apart = least > limit
                if not apart and most > limit and used < cuts and not has(shared[u], v):
                    used += 1
                    for x in range(n):
                        avoid[x] = has(out, x)
                    flow.capacity[:] = network.capacity
                    respect_rows(network, parts.later[u], parts.earlier[u], flow.capacity)
                    respect_rows(network, parts.later[v], parts.earlier[v], flow.capacity)
                    flow.sink[:] = network.sink
                    cost = cheapest_block(network, members[:size], supply, avoid, limit, tiny, flow)
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
                    return found, used, True
                add(parts.apart[u], v)
                add(parts.apart[v], u)
                found += 1
    return found, used, False
