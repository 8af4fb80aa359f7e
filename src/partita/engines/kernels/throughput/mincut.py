"""Smallest cost of a block that holds some items and avoids others, by a minimum cut.

f(S) = work + cut nets is submodular, so its minimum over the sets between two given ones is a minimum cut. Flow comes
from what S must hold, and ends in a *sink* of every node, an array instead of a node. A net of two pins is an arc each
way. A larger net has two nodes: S reaches the first with any pin, the arc to the second costs the net, and from the
second S takes all pins. Nets that are known to be cut cost their transfer as soon as the first node is reached.

Sources: Lawler, "Cutsets and Partitions of Hypergraphs" (Networks 3, 1973) for the nets; Dinic (1970) for the flow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bools, Bytes, Floats, Ints, Words
from partita.engines.kernels.bits import add, has
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.rows import row_of
from partita.engines.kernels.throughput.blocks import BlockProblem


class BlockNetwork(NamedTuple):
    """Arcs leaving each of the nodes, CSR: items first, then two nodes for each net of three or more pins.

    Arcs come in pairs; ``pair`` is the place of the arc back. ``capacity`` and ``sink`` are those before any flow.
    ``order_arc`` (edges, 2) are the arcs from a successor to its predecessor and back, without capacity: an order that
    a block must respect can be switched on for one cut. ``order`` (edges, 2) are their predecessor and successor.
    Flows below ``tiny`` are rounding.
    """

    ptr: Ints
    head: Ints
    pair: Ints
    capacity: Floats
    sink: Floats
    order: Ints
    order_arc: Ints
    tiny: float


#: Flows below this share of all work and transfers are rounding.
TINY = 1e-13


class BlockFlow(NamedTuple):
    """A flow through a network: what capacity and sinks have left, and distances, next arcs and path of its search."""

    capacity: Floats
    sink: Floats
    level: Ints
    next_arc: Ints
    stack: Ints


@compiled
def new_flow(network: BlockNetwork) -> BlockFlow:
    """Room for the flow through a network; set ``capacity`` and ``sink`` before each."""
    nodes = network.sink.shape[0]
    capacity, sink = np.empty_like(network.capacity), np.empty_like(network.sink)
    level, next_arc, stack = np.empty(nodes, np.int32), np.empty(nodes, np.int32), np.empty(nodes + 1, np.int32)
    return BlockFlow(capacity, sink, level, next_arc, stack)


@compiled
def block_network(blocks: BlockProblem, forced: Bytes) -> BlockNetwork:
    """The network of an instance in which ``forced`` nets are cut by every block with a pin."""
    cost, net_ptr, net_pins = blocks.cost, blocks.net.ptr, blocks.net.pins
    succ_ptr, succ = blocks.graph.succ_ptr, blocks.graph.succ
    n, m = blocks.work.shape[0], cost.shape[0]
    edges = succ.shape[0]
    large, arcs = 0, edges + m
    for e in range(m):
        size = net_ptr[e + 1] - net_ptr[e]
        if size > 2:
            large += 1
            arcs += 2 * size
    nodes = n + 2 * large
    tail = np.empty(arcs, np.int32)
    tip = np.empty(arcs, np.int32)
    there = np.zeros(arcs, np.float64)
    back = np.zeros(arcs, np.float64)
    sink = np.zeros(nodes, np.float64)
    sink[:n] = blocks.work
    order = np.empty((edges, 2), np.int32)
    a = 0
    for v in range(n):
        for w in row_of(succ_ptr, succ, v):
            order[a, 0], order[a, 1] = v, w
            tail[a], tip[a] = w, v
            a += 1
    gadget = n
    for e in range(m):
        low, high = net_ptr[e], net_ptr[e + 1]
        if high - low == 2:
            u, v = net_pins[low], net_pins[low + 1]
            tail[a], tip[a] = u, v
            if forced[e]:
                # No block has both, so each pays for itself.
                sink[u] += cost[e]
                sink[v] += cost[e]
            else:
                there[a] = back[a] = cost[e]
            a += 1
            continue
        for p in range(low, high):
            tail[a], tip[a], there[a] = net_pins[p], gadget, np.inf
            a += 1
            tail[a], tip[a], there[a] = gadget + 1, net_pins[p], np.inf
            a += 1
        tail[a], tip[a] = gadget, gadget + 1
        if forced[e]:
            sink[gadget] = cost[e]
        else:
            there[a] = cost[e]
        a += 1
        gadget += 2
    ptr = np.zeros(nodes + 1, np.int32)
    for a in range(arcs):
        ptr[tail[a] + 1] += 1
        ptr[tip[a] + 1] += 1
    for u in range(nodes):
        ptr[u + 1] += ptr[u]
    place = ptr[:-1].copy()
    head = np.empty(2 * arcs, np.int32)
    pair = np.empty(2 * arcs, np.int32)
    capacity = np.empty(2 * arcs, np.float64)
    order_arc = np.empty((edges, 2), np.int32)
    for a in range(arcs):
        i, j = place[tail[a]], place[tip[a]]
        place[tail[a]] += 1
        place[tip[a]] += 1
        head[i], pair[i], capacity[i] = tip[a], j, there[a]
        head[j], pair[j], capacity[j] = tail[a], i, back[a]
        if a < edges:
            order_arc[a, 0], order_arc[a, 1] = i, j
    tiny = TINY * (blocks.work.sum() + 2 * cost.sum())
    return BlockNetwork(ptr, head, pair, capacity, sink, order, order_arc, tiny)


@compiled
def _levels(network: BlockNetwork, sources: Ints, supply: Floats, flow: BlockFlow) -> bool:
    """Distances from the sources in the residual network, up to the first node with room in its sink."""
    capacity, sink, level, _, queue = flow
    level[:] = -1
    filled = 0
    found = False
    for s in sources:
        if supply[s] <= network.tiny:
            continue
        level[s] = 0
        queue[filled] = s
        filled += 1
        found = found or sink[s] > network.tiny
    done = 0
    depth = 0
    while done < filled and not found:
        depth += 1
        end = filled
        while done < end:
            u = queue[done]
            done += 1
            for a in range(network.ptr[u], network.ptr[u + 1]):
                v = network.head[a]
                if level[v] < 0 and capacity[a] > network.tiny:
                    level[v] = depth
                    queue[filled] = v
                    filled += 1
                    found = found or sink[v] > network.tiny
    return found


@compiled
def cheapest_block(
    network: BlockNetwork, sources: Ints, supply: Floats, avoid: Bytes, limit: float, flow: BlockFlow
) -> float:
    """Least cost of a set with nothing to ``avoid``, plus ``supply`` of sources left out; over ``limit``, a bound.

    Sources of infinite ``supply`` must be in the set. ``supply`` and ``flow``, which starts with the capacities and
    sinks of the network, are used up. Where the answer is at most ``limit``, the items with ``flow.level`` >= 0
    afterwards are the smallest set of that cost. ``avoid`` may be empty for nothing.
    """
    capacity, sink, level, next_arc, stack = flow
    tiny = network.tiny
    for v in range(avoid.shape[0]):
        if avoid[v]:
            sink[v] = np.inf
    sent = 0.0
    while _levels(network, sources, supply, flow):
        next_arc[:] = network.ptr[:-1]
        for s in sources:
            depth = 0 if supply[s] > tiny else -1
            stack[0] = s
            while depth >= 0:
                u = stack[depth]
                if sink[u] > tiny:
                    amount = min(sink[u], supply[s])
                    for i in range(depth):
                        amount = min(amount, capacity[next_arc[stack[i]]])
                    if amount == np.inf:
                        return np.inf
                    sent += amount
                    if sent > limit:
                        return float(sent)
                    sink[u] -= amount
                    supply[s] -= amount
                    back = depth
                    for i in range(depth - 1, -1, -1):
                        a = next_arc[stack[i]]
                        capacity[a] -= amount
                        capacity[network.pair[a]] += amount
                        if capacity[a] <= tiny:
                            back = i
                    depth = back if supply[s] > tiny else -1
                    continue
                ahead = False
                while next_arc[u] < network.ptr[u + 1]:
                    a = next_arc[u]
                    v = network.head[a]
                    if capacity[a] > tiny and level[v] == level[u] + 1:
                        ahead = True
                        break
                    next_arc[u] += 1
                if ahead:
                    depth += 1
                    stack[depth] = v
                else:
                    level[u] = -2
                    depth -= 1
    return float(sent)


@compiled
def reached(ptr: Ints, adjacent: Ints, start: int) -> Words:
    """What an item reaches, itself included, as a row of bits."""
    seen = np.zeros((ptr.shape[0] + 62) // 64, np.uint64)
    add(seen, start)
    stack = [start]
    while len(stack) > 0:
        u = stack.pop()
        for v in adjacent[ptr[u] : ptr[u + 1]]:
            if not has(seen, v):
                add(seen, v)
                stack.append(v)
    return seen


@compiled
def respect_order(network: BlockNetwork, later: Words, earlier: Words, capacity: Floats) -> None:
    """Let no set with an item and one of its descendants leave out what lies between them, nor of its ancestors.

    ``later`` and ``earlier`` are rows of bits: the descendants and the ancestors, the item included.
    """
    for i in range(network.order.shape[0]):
        u, v = network.order[i, 0], network.order[i, 1]
        if has(later, u):
            capacity[network.order_arc[i, 0]] = np.inf
        elif has(earlier, v):
            capacity[network.order_arc[i, 1]] = np.inf


@compiled
def most_expensive_item(
    network: BlockNetwork, blocks: BlockProblem, ordered: bool, upper: Floats, best: float, count: int
) -> float:
    """max over items of the cheapest block with the item, of which at most ``count`` are computed in this call.

    ``upper`` holds upper estimates of the cheapest block with each item, starting from f({v}); it is lowered to what
    is found, so that calling again goes on. The answer is at least ``best``, and final when no estimate exceeds it.
    """
    n = upper.shape[0]
    flow = new_flow(network)
    nothing = np.zeros(0, np.int8)
    source = np.empty(1, np.int32)
    supply = np.full(n, np.inf)
    for _ in range(count):
        v = int(np.argmax(upper))
        if upper[v] <= best * (1 + 1e-12):
            break
        source[0] = v
        flow.capacity[:] = network.capacity
        flow.sink[:] = network.sink
        if ordered:
            later = reached(blocks.graph.succ_ptr, blocks.graph.succ, v)
            earlier = reached(blocks.graph.pred_ptr, blocks.graph.pred, v)
            respect_order(network, later, earlier, flow.capacity)
        cost = cheapest_block(network, source, supply, nothing, np.inf, flow)
        inside = flow.level[:n] >= 0
        best = max(best, cost)
        upper[v] = -np.inf
        if not ordered or _convex(blocks.graph.succ_ptr, blocks.graph.succ, inside):
            # The set serves all of its items.
            for u in range(n):
                if inside[u]:
                    upper[u] = min(upper[u], cost)
    return best


@compiled
def _convex(succ_ptr: Ints, succ: Ints, inside: Bools) -> bool:
    """Whether no path leaves the set and comes back, for an order of which edges go up."""
    n = inside.shape[0]
    left = np.zeros(n, np.int8)
    for v in range(n):
        for w in row_of(succ_ptr, succ, v):
            if left[v] or inside[v]:
                if inside[w]:
                    if left[v]:
                        return False
                else:
                    left[w] = 1
    return True
