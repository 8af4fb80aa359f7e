"""The network of minimum cuts over some of the items, for searches that leave the others out from the start.

Where the order and the target keep most items from sharing a block with one, flows through what is left are short.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Ints, Words
from partita.engines.kernels.bits import has
from partita.engines.kernels.compiled import called
from partita.engines.kernels.rows import predecessors, sets_with
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.convex_sets import Exclusions
from partita.engines.kernels.throughput.mincut import BlockNetwork


class Part(NamedTuple):
    """The items that a search at an anchor does not leave out from the start, and the network of them alone.

    ``place`` (n,) is the node of an item, -1 for what is out. The network's ``order`` has the items.
    """

    network: BlockNetwork
    items: Ints
    place: Ints


@called
def network_without(a: BlockProblem, x: Exclusions, out: Words, tiny: float) -> Part:
    """As ``mincut.block_network``, without the items that are ``out``: nets that go there are paid where touched."""
    n, m = a.work.shape[0], a.cost.shape[0]
    place, items = np.full(n, -1, np.int32), np.empty(n, np.int32)
    count = 0
    for v in range(n):
        if not has(out, v):
            place[v], items[count] = count, v
            count += 1
    # Arcs of the order, then of the nets: two ends and what goes there and back.
    inside, gadget = np.zeros(m, np.int32), np.full(m, -1, np.int32)
    arcs, nodes = 0, count
    for v in items[:count]:
        for u in predecessors(a.graph, v):
            arcs += place[u] >= 0
        for e in sets_with(a.net, v):
            inside[e] += 1
            size = a.net.ptr[e + 1] - a.net.ptr[e]
            if inside[e] == 2 and (size > 2 or x.split[e] == 0):
                gadget[e] = nodes
                nodes += 2 if size > 2 else 0
                arcs += 2 * size + 1
    tail, tip = np.empty(arcs, np.int32), np.empty(arcs, np.int32)
    there, back = np.zeros(arcs), np.zeros(arcs)
    order, sink = np.empty((arcs, 2), np.int32), np.zeros(nodes)
    used = 0
    for j in range(count):
        sink[j] = a.work[items[j]]
        for u in predecessors(a.graph, items[j]):
            if place[u] >= 0:
                order[used] = u, items[j]
                tail[used], tip[used] = j, place[u]
                used += 1
    ordered = used
    done = np.zeros(m, np.bool_)
    for j in range(count):
        for e in sets_with(a.net, items[j]):
            first, last = a.net.ptr[e], a.net.ptr[e + 1]
            paid = inside[e] < last - first or x.split[e] != 0
            if gadget[e] < 0:
                # Nothing saves it: each pin pays for itself.
                sink[j] += a.cost[e]
                continue
            if done[e]:
                continue
            done[e] = True
            if last - first == 2:
                tail[used], tip[used] = place[a.net.pins[first]], place[a.net.pins[first + 1]]
                there[used] = back[used] = a.cost[e]
                used += 1
                continue
            for p in range(first, last):
                k = place[a.net.pins[p]]
                if k < 0:
                    continue
                tail[used], tip[used], there[used] = k, gadget[e], np.inf
                used += 1
                if not paid:
                    tail[used], tip[used], there[used] = gadget[e] + 1, k, np.inf
                    used += 1
            if paid:
                sink[gadget[e]] += a.cost[e]
            else:
                tail[used], tip[used], there[used] = gadget[e], gadget[e] + 1, a.cost[e]
                used += 1
    ptr = np.zeros(nodes + 1, np.int32)
    for i in range(used):
        ptr[tail[i] + 1] += 1
        ptr[tip[i] + 1] += 1
    for j in range(nodes):
        ptr[j + 1] += ptr[j]
    free = ptr[:-1].copy()
    head, pair, capacity = np.empty(2 * used, np.int32), np.empty(2 * used, np.int32), np.empty(2 * used)
    order_arc = np.empty((ordered, 2), np.int32)
    for i in range(used):
        forth, home = free[tail[i]], free[tip[i]]
        free[tail[i]] += 1
        free[tip[i]] += 1
        head[forth], head[home] = tip[i], tail[i]
        pair[forth], pair[home] = home, forth
        capacity[forth], capacity[home] = there[i], back[i]
        if i < ordered:
            order_arc[i] = forth, home
    network = BlockNetwork(
        ptr, head, pair, capacity, sink, order[:ordered].copy(), order_arc, np.zeros(0, np.int32), tiny
    )
    return Part(network, items[:count].copy(), place)
