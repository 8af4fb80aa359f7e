"""What a split costs whose items are known to lie in windows of blocks, and windows that no good split leaves.

Item v is in one of the blocks ``first[v]`` … ``last[v]``. From that follow, for every run of blocks p … q: the work of
the items with a window inside; for a net with two windows that are disjoint, which is cut in any case, its cost for
each of as many disjoint windows inside as there are; and what the boundaries between blocks cost at least. Of a
boundary b, the items before it are a set closed under predecessors that holds all with ``last`` <= b and none with
``first`` > b: a minimum cut says what nets it crosses at least. Nets that are cut in any case do not count there. One
that may be cut at several boundaries counts at each with an equal part, so that all together count it once: the blocks
up to b pay it if it is cut at one of the boundaries up to b, so do the blocks after, and all blocks together pay it
twice.

An item leaves the blocks up to b if those could not hold the heaviest chain of items that would move there with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bytes, Floats
from partita.engines.kernels.compiled import called, compiled
from partita.engines.kernels.rows import pins_of, predecessors, successors
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.mincut import BlockFlow, BlockNetwork, cheapest_block, new_flow
from partita.ground.rounding import NOT_ZERO, TOLERANCE

#: Times that windows are narrowed in one call.
ROUNDS = 20


class WindowRoom(NamedTuple):
    """What the search for windows works on: the network without work, and room.

    ``sums`` (k, k) is what windows p … q cost that are no part of a smaller run, ``chain`` (n,) the heaviest chains,
    ``cut`` (m,) the nets that are cut in any case, ``crossing`` (k − 1,) the least cost of the boundaries.
    """

    network: BlockNetwork
    flow: BlockFlow
    sums: Floats
    chain: Floats
    cut: Bytes
    crossing: Floats


def new_window_room(blocks: BlockProblem, network: BlockNetwork) -> WindowRoom:
    """Room for the windows of a problem; no net of the network is forced."""
    n, m, k = blocks.items, blocks.nets, blocks.devices
    return WindowRoom(
        network, new_flow(network), np.zeros((k, k)), np.zeros(n), np.zeros(m, np.int8), np.zeros(max(0, k - 1))
    )


@called
def _follow_order(a: BlockProblem, first: Bytes, last: Bytes) -> bool:
    """No item is before its predecessors or after its successors; false if a window is empty then."""
    n = first.shape[0]
    for v in range(n):
        for u in predecessors(a.graph, v):
            first[v] = max(first[v], first[u])
    for v in range(n - 1, -1, -1):
        for w in successors(a.graph, v):
            last[v] = min(last[v], last[w])
        if first[v] > last[v]:
            return False
    return True


@called
def _add_net(a: BlockProblem, e: int, first: Bytes, last: Bytes, sums: Floats) -> bool:
    """Add what a net costs in any case; whether it does."""
    low, high = a.net.ptr[e], a.net.ptr[e + 1]
    latest, earliest = -1, sums.shape[0]
    for p in range(low, high):
        v = a.net.pins[p]
        latest, earliest = max(latest, first[v]), min(earliest, last[v])
    if latest <= earliest:
        return False
    # Disjoint windows, each with its own block: always the one that ends first, and of those the shortest.
    end = -1
    while end < latest:
        start, stop = -1, sums.shape[0]
        for p in range(low, high):
            v = a.net.pins[p]
            if first[v] > end and (last[v] < stop or (last[v] == stop and first[v] > start)):
                start, stop = first[v], last[v]
        sums[start, stop] += a.cost[e]
        end = stop
    return True


@called
def _least_target(sums: Floats, crossing: Floats) -> float:
    """The least target that all runs of blocks allow."""
    k = sums.shape[0]
    least = 0.0
    for p in range(k):
        inside = 0.0
        for q in range(p, k):
            for i in range(p, q + 1):
                inside += sums[i, q]
            cost = inside
            if p == 0 and q == k - 1:
                cost += 2 * crossing.sum()
            elif p == 0:
                cost += crossing[: q + 1].sum()
            elif q == k - 1:
                cost += crossing[p - 1 :].sum()
            least = max(least, cost / (q - p + 1))
    return least


@compiled
def _push(a: BlockProblem, first: Bytes, last: Bytes, target: float, room: WindowRoom) -> bool:
    """Take items out of blocks that cannot hold the chain that would come along; whether a window changed."""
    n, k, chain = first.shape[0], room.sums.shape[0], room.chain
    moved = False
    for b in range(k - 1):
        free = (b + 1) * target - room.sums[: b + 1, : b + 1].sum() - room.crossing[: b + 1].sum()
        for v in range(n):
            chain[v] = 0.0
            if last[v] > b:
                for u in predecessors(a.graph, v):
                    chain[v] = max(chain[v], chain[u])
                chain[v] += a.work[v]
                if first[v] <= b and chain[v] > free:
                    first[v] = b + 1
                    moved = True
        free = (k - 1 - b) * target - room.sums[b + 1 :, b + 1 :].sum() - room.crossing[b:].sum()
        for v in range(n - 1, -1, -1):
            chain[v] = 0.0
            if first[v] <= b:
                for w in successors(a.graph, v):
                    chain[v] = max(chain[v], chain[w])
                chain[v] += a.work[v]
                if last[v] > b and chain[v] > free:
                    last[v] = b
                    moved = True
    return moved


@compiled
def _narrow(a: BlockProblem, first: Bytes, last: Bytes, target: float, room: WindowRoom, known: bool) -> float:
    """Narrow windows; a bound on the largest load within them, infinite if a window is empty.

    Where ``crossing`` is ``known``, nets that it counts stay there, even if they turn out to be cut in any case.
    """
    sums, cut = room.sums, room.cut
    least = 0.0
    for _ in range(ROUNDS):
        if not _follow_order(a, first, last):
            return np.inf
        sums[:] = 0.0
        for v in range(first.shape[0]):
            sums[first[v], last[v]] += a.work[v]
        for e in range(a.cost.shape[0]):
            if not known or cut[e]:
                cut[e] = _add_net(a, e, first, last, sums)
        least = max(least, _least_target(sums, room.crossing))
        if least > target or not _push(a, first, last, target, room):
            break
    return least


@called
def _cross(a: BlockProblem, first: Bytes, last: Bytes, room: WindowRoom) -> None:
    """Fill ``crossing``, without the nets that are cut in any case."""
    n, network, flow = first.shape[0], room.network, room.flow
    sources, supply, nothing = np.empty(n, np.int32), np.empty(n), np.zeros(0, np.int8)
    near = np.empty(n, np.int8)
    for b in range(room.crossing.shape[0]):
        flow.capacity[:] = network.capacity
        flow.sink[:] = 0.0
        near[:] = 0
        for e in range(a.cost.shape[0]):
            low, high = room.crossing.shape[0] + 1, -1
            for w in pins_of(a.net, e):
                low, high = min(low, first[w]), max(high, last[w])
            part = 0.0
            if not room.cut[e] and low <= b < high:
                part = 1.0 / (high - low)
                for w in pins_of(a.net, e):
                    near[w] = 1
            i = network.net_arc[e]
            flow.capacity[i] *= part
            flow.capacity[network.pair[i]] *= part
        # Where all is decided nothing flows: only items with a net that may be cut here are sources.
        count = 0
        for v in range(n):
            if last[v] <= b:
                sources[count] = v
                count += near[v]
            elif first[v] > b:
                flow.sink[v] = np.inf
        for i in range(network.order.shape[0]):
            u, v = network.order[i, 0], network.order[i, 1]
            if last[u] > b and first[v] <= b:
                flow.capacity[network.order_arc[i, 0]] = np.inf
        supply[:] = np.inf
        room.crossing[b] = cheapest_block(network, sources[:count], supply, nothing, np.inf, flow)


@compiled
def settle_windows(a: BlockProblem, first: Bytes, last: Bytes, target: float, room: WindowRoom) -> float:
    """Narrow the windows to what splits with loads up to ``target`` leave; a bound on the loads of these.

    Above ``target``, or infinite, there is none, and the windows mean nothing. If every window is one block the bound
    is the largest load of that split.
    """
    room.crossing[:] = 0.0
    least = _narrow(a, first, last, target, room, False)
    if least > target:
        return least
    _cross(a, first, last, room)
    return max(least, _narrow(a, first, last, target, room, True))


@compiled
def dividing_item(a: BlockProblem, first: Bytes, last: Bytes, room: WindowRoom) -> tuple[int, int]:
    """The boundary with most work on both sides of it possible, and the item amid that; −1 if there is none."""
    n, k = first.shape[0], room.sums.shape[0]
    boundary, most = -1, -1.0
    for b in range(k - 1):
        work, count = 0.0, 0
        for v in range(n):
            if first[v] <= b < last[v]:
                work += a.work[v]
                count += 1
        if count and work > most:
            boundary, most = b, work
    if boundary < 0:
        return -1, -1
    # An item without work counts a little, so that one is found in any case.
    little = (most + NOT_ZERO) * TOLERANCE
    before, after = room.chain, np.zeros(n)
    for v in range(n):
        before[v] = 0.0
        if first[v] <= boundary < last[v]:
            for u in predecessors(a.graph, v):
                before[v] = max(before[v], before[u])
            before[v] += a.work[v] + little
    item, best = -1, -1.0
    for v in range(n - 1, -1, -1):
        if first[v] <= boundary < last[v]:
            for w in successors(a.graph, v):
                after[v] = max(after[v], after[w])
            after[v] += a.work[v] + little
            if min(before[v], after[v]) > best:
                item, best = v, min(before[v], after[v])
    return boundary, item
