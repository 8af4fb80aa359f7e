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
from partita.engines.kernels.compiled import called, compiled
from partita.engines.kernels.graph_arrays import pointer_of
from partita.engines.kernels.rows import row_of
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.ground.rounding import SUMMED_FEW


class BlockNetwork(NamedTuple):
    """Arcs leaving each of the nodes, CSR: items first, then two nodes for each net of three or more pins.

    Arcs come in pairs; ``pair`` is the place of the arc back. ``capacity`` and ``sink`` are those before any flow.
    ``order_arc`` (edges, 2) are the arcs from a successor to its predecessor and back, without capacity: an order that
    a block must respect can be switched on for one cut. ``order`` (edges, 2) are their predecessor and successor.
    ``net_arc`` (m,) are the arcs that cost the nets.
    Flows below ``tiny`` are rounding.
    """

    ptr: Ints
    head: Ints
    pair: Ints
    capacity: Floats
    sink: Floats
    order: Ints
    order_arc: Ints
    net_arc: Ints
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


def block_network(blocks: BlockProblem, forced: Bytes) -> BlockNetwork:
    """The network of an instance in which ``forced`` nets are cut by every block with a pin."""
    n, m, net, order = blocks.items, blocks.nets, blocks.net, blocks.graph.edges.astype(np.int32)
    sizes = np.diff(net.ptr)
    large, edges = sizes > 2, len(order)
    # The arcs of a net are those of its pins, if there are more than two, and one that costs it.
    count = np.where(large, 2 * sizes + 1, 1)
    last = edges + np.cumsum(count) - 1
    gadget = np.add(n, 2 * (np.cumsum(large) - large))
    tail, tip = np.empty((2, edges + int(count.sum())), np.int32)
    there, back = np.zeros((2, len(tail)))
    tail[:edges], tip[:edges] = order[:, 1], order[:, 0]
    tail[last] = np.where(large, gadget, net.pins[net.ptr[:-1]])
    tip[last] = np.where(large, gadget + 1, net.pins[net.ptr[:-1] + 1])
    there[last] = np.where(forced, 0.0, blocks.cost)
    back[last] = np.where(large, 0.0, there[last])
    of_pin = np.repeat(np.arange(m), sizes)
    place = (last - count + 1 - 2 * net.ptr[:-1])[of_pin] + 2 * np.arange(len(of_pin))
    of_pin, place, pins = of_pin[large[of_pin]], place[large[of_pin]], net.pins[large[of_pin]]
    tail[place], tip[place], there[place] = pins, gadget[of_pin], np.inf
    tail[place + 1], tip[place + 1], there[place + 1] = gadget[of_pin] + 1, pins, np.inf
    sink = np.zeros(n + 2 * int(large.sum()))
    sink[:n] = blocks.work
    # No block has both pins of a forced net of two, so each pays for itself.
    paid = np.flatnonzero(forced)
    small = paid[~large[paid]]
    np.add.at(sink, np.stack([tail[last[small]], tip[last[small]]], axis=1), blocks.cost[small, None])
    sink[gadget[paid[large[paid]]]] = blocks.cost[paid[large[paid]]]
    ends = np.stack([tail, tip], axis=1).ravel()
    at = np.empty(len(ends), np.int32)
    at[np.argsort(ends, kind="stable")] = np.arange(len(ends))
    ptr, (forth, home) = pointer_of(np.bincount(ends, minlength=len(sink))), (at[0::2], at[1::2])
    head, pair, capacity = np.empty_like(at), np.empty_like(at), np.empty(len(at))
    head[forth], pair[forth], capacity[forth] = tip, home, there
    head[home], pair[home], capacity[home] = tail, forth, back
    order_arc = np.ascontiguousarray(at.reshape(-1, 2)[:edges])
    tiny = TINY * float(blocks.work.sum() + 2 * blocks.cost.sum())
    return BlockNetwork(ptr, head, pair, capacity, sink, order, order_arc, forth[last], tiny)


@called
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
        if upper[v] <= best * (1 + SUMMED_FEW):
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


@called
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
