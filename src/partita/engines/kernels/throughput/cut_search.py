"""Is there a block of load at most a target that carries more than so much charge? Branch and bound by minimum cuts.

The same question as in ``covering``, for blocks that are large, where a knapsack of single items says too little of
what a block pays at its boundary. For any price µ >= 0 of load, blocks S that hold the items taken in and none left out
carry

    y(S) <= µ·T + max over such S of (y(S) - µ·f(S)),

and the maximum is a minimum cut, since f is submodular. Order is respected as far as it fits into a cut: with an item
in, a descendant of it takes along what lies between. As a function of µ, each set is a line; a set within the target,
with too little charge, wants µ below some price, and one beyond the target above some price. While these leave a price,
it is tried next; where they leave none, no price can end the node, and it is divided by an item in which the two sets
differ.

Flows are kept: taking in or leaving out adds capacity only. A larger price adds capacity as well; for a smaller one all
flow shrinks in proportion. So a node costs the flow that it adds to its parent's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs, Words
from partita.engines.kernels.bits import add, has, listed
from partita.engines.kernels.compiled import called, compiled
from partita.engines.kernels.rows import sets_with
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.convex_sets import Exclusions, close, include
from partita.engines.kernels.throughput.mincut import BlockFlow, cheapest_block
from partita.engines.kernels.throughput.part_network import Part, network_without
from partita.ground.rounding import NOT_ZERO, TOLERANCE

#: Most prices that a node tries.
CUTS = 6
#: Most items decided on the way to a node.
DEEPEST = 120
#: By how much a price goes beyond what a line asks for.
BEYOND = 0.03
#: What flows may be off by, as a share of all that is charged and paid.
MARGIN = 1e-10


class _Levels(NamedTuple):
    """What is kept of each node on the way, by depth: flows, sets, and the price with the bounds that lines set it.

    ``sets`` are the items in and out, descendants and ancestors of those in; those in and out that the flow knows; and
    the last sets that fit and that did not. ``numbers`` are the price, what was sent, the lower and the upper bound.
    """

    capacity: Floats
    sink: Floats
    supply: Floats
    sets: Words
    numbers: Floats


@called
def _apply(part: Part, at: _Levels, d: int, some: Words, members: Ints) -> None:
    """Let the flow of a node know what is in and out."""
    network = part.network
    sets, words = at.sets[d], some.shape[0]
    fresh = False
    for side in range(2):
        for j in range(words):
            some[j] = sets[side, j] & ~sets[4 + side, j]
            sets[4 + side, j] |= sets[side, j]
        for v in members[: listed(some, members)]:
            j = part.place[v]
            if side == 0:
                at.supply[d, j] = np.inf
                fresh = True
            elif j >= 0:
                at.sink[d, j] = np.inf
    if fresh:
        for i in range(network.order.shape[0]):
            u, v = network.order[i, 0], network.order[i, 1]
            if has(sets[2], u):
                at.capacity[d, network.order_arc[i, 0]] = np.inf
            if has(sets[3], v):
                at.capacity[d, network.order_arc[i, 1]] = np.inf


@called
def _reprice(part: Part, charge: Floats, at: _Levels, d: int, price: float) -> None:
    """Change the price of a node's flow."""
    network = part.network
    capacity, sink, supply = at.capacity[d], at.sink[d], at.supply[d]
    old = at.numbers[d, 0]
    at.numbers[d, 0] = price
    if price > old:
        more = price - old
        for i in range(capacity.shape[0]):
            capacity[i] += more * network.capacity[i]
        for i in range(sink.shape[0]):
            sink[i] += more * network.sink[i]
        return
    less = price / old
    for i in range(capacity.shape[0]):
        capacity[i] *= less
    for i in range(sink.shape[0]):
        sink[i] *= less
    for j in range(supply.shape[0]):
        if supply[j] < np.inf:
            worth = charge[part.items[j]]
            supply[j] = worth - (worth - supply[j]) * less
    at.numbers[d, 1] *= less


@called
def _gap(x: Exclusions, block: Words, gap: Words, members: Ints) -> bool:
    """What lies between members of a set without being one; whether there is any."""
    words = block.shape[0]
    later, earlier = np.zeros(words, np.uint64), np.zeros(words, np.uint64)
    for v in members[: listed(block, members)]:
        for j in range(words):
            later[j] |= x.after[v, j]
            earlier[j] |= x.before[v, j]
    found = False
    for j in range(words):
        gap[j] = later[j] & earlier[j] & ~block[j]
        found = found or gap[j] != np.uint64(0)
    return found


@called
def _load(a: BlockProblem, block: Words, members: Ints) -> float:
    """f of a set."""
    load = 0.0
    for v in members[: listed(block, members)]:
        load += a.work[v]
        for e in sets_with(a.net, v):
            first, outside = -1, False
            for p in range(a.net.ptr[e], a.net.ptr[e + 1]):
                if not has(block, a.net.pins[p]):
                    outside = True
                elif first < 0:
                    first = a.net.pins[p]
            if outside and first == v:
                load += a.cost[e]
    return load


@called
def _branch(charge: Floats, sets: Words, among: Words, members: Ints) -> int:
    """The undecided item of a set that carries most; -1 for none."""
    best = -1
    for v in members[: listed(among, members)]:
        if not has(sets[0], v) and not has(sets[1], v) and (best < 0 or charge[v] > charge[best]):
            best = v
    return best


@called
def _beside(x: Exclusions, charge: Floats, sets: Words, block: Words, gap: Words, members: Ints) -> int:
    """The item of a block that carries most of those not taken in yet that lie before or after what is missing."""
    best = -1
    for v in members[: listed(block, members)]:
        if has(sets[0], v) or (best >= 0 and charge[v] <= charge[best]):
            continue
        for j in range(gap.shape[0]):
            if (x.after[v, j] | x.before[v, j]) & gap[j] != np.uint64(0):
                best = v
                break
    return best


@called
def _valid(sets: Words, row: int) -> bool:
    """Whether a set still holds all that is in and nothing that is out."""
    amiss = np.uint64(0)
    for j in range(sets.shape[1]):
        amiss |= (sets[0, j] & ~sets[row, j]) | (sets[1, j] & sets[row, j])
    return bool(amiss == np.uint64(0))


@compiled
def search_by_cuts(
    a: BlockProblem,
    x: Exclusions,
    tiny: float,
    charge: Floats,
    target: float,
    wanted: float,
    fair: float,
    anchor: int,
    skipped: Words,
    price: float,
    most: int,
    further: int,
    stop: Longs,
    found: Words,
    near: Words,
) -> tuple[int, int, float]:
    """Look for a convex block with this anchor and nothing ``skipped``, load <= target, charge > wanted.

    Charges are (n,), not negative; flows below ``tiny``, in units of charge, are rounding. The ``price`` of load is
    where to begin. The search gives up after ``most`` nodes, or when the flag ``stop`` is raised; the block goes into
    the bit set ``found``. From each block on it looks for one that carries more, for ``further`` nodes. Of the other
    blocks that it comes across and that carry more than ``fair``, the richest goes into ``near``. Returns 0 for none,
    1 for one found, 2 if it gave up; the nodes; the price that the first node ended with.
    """
    n, words = a.work.shape[0], x.after.shape[1]
    root = np.zeros((8, words), np.uint64)
    some, members, block, gap = (
        np.zeros(words, np.uint64),
        np.zeros(n, np.int32),
        np.zeros(words, np.uint64),
        np.zeros(words, np.uint64),
    )
    root[1] = skipped
    include(x, root, anchor)
    if not close(x, root, some, members):
        return 0, 1, price
    part = network_without(a, x, root[1], tiny)
    network, items = part.network, part.items
    arcs, places, count_in = network.head.shape[0], network.sink.shape[0], items.shape[0]
    deep = min(n, DEEPEST) + 2
    at = _Levels(
        np.empty((deep, arcs)),
        np.empty((deep, places)),
        np.empty((deep, count_in)),
        np.zeros((deep, 8, words), np.uint64),
        np.zeros((deep, 4)),
    )
    level, next_arc, stack = np.empty(places, np.int32), np.empty(places, np.int32), np.empty(places + 1, np.int32)
    sources, nothing = np.empty(count_in, np.int32), np.zeros(0, np.int8)
    everywhere = np.zeros(words, np.uint64)
    for v in range(n):
        add(everywhere, v)
    everything = 0.0
    for j in range(count_in):
        everything += charge[items[j]]
        at.supply[0, j] = charge[items[j]]
    first_price = price
    for i in range(arcs):
        at.capacity[0, i] = price * network.capacity[i]
    for i in range(places):
        at.sink[0, i] = price * network.sink[i]
    at.sets[0] = root
    at.numbers[0] = (price, 0.0, 0.0, np.inf)
    depth, nodes, status = 1, 0, 0
    while depth > 0:
        d = depth - 1
        nodes += 1
        if nodes > most or stop[0] != 0:
            return (1 if status == 1 else 2), nodes, first_price
        sets, numbers = at.sets[d], at.numbers[d]
        if not close(x, sets, some, members):
            depth -= 1
            continue
        _apply(part, at, d, some, members)
        if not _valid(sets, 6):
            numbers[3] = np.inf
        if not _valid(sets, 7):
            numbers[2] = 0.0
        flow = BlockFlow(at.capacity[d], at.sink[d], level, next_arc, stack)
        alive, torn = True, False
        for _cut in range(CUTS):
            low, high = numbers[2], numbers[3]
            if low >= high * (1 - TOLERANCE):
                # No price ends this node.
                break
            new = numbers[0]
            if new < low or new > high or _cut > 0:
                if low > 0 and high < np.inf:
                    new = 0.5 * (low + high)
                elif low > 0:
                    new = low * (1 + BEYOND)
                else:
                    new = high * (1 - BEYOND)
                _reprice(part, charge, at, d, new)
            count = 0
            for j in range(count_in):
                if at.supply[d, j] > network.tiny:
                    sources[count] = j
                    count += 1
            limit = everything + numbers[0] * target - wanted + MARGIN * (everything + numbers[0] * target)
            sent = cheapest_block(network, sources[:count], at.supply[d], nothing, limit - numbers[1], flow)
            numbers[1] += sent
            if numbers[1] > limit:
                alive = False
                break
            block[:] = np.uint64(0)
            held = 0.0
            for j in range(count_in):
                if level[j] >= 0:
                    add(block, items[j])
                    held += charge[items[j]]
            load = (numbers[1] - (everything - held)) / numbers[0]
            if load > target:
                sets[7] = block
                numbers[2] = max(numbers[2], (held - wanted) / (load - target))
                continue
            if held > wanted:
                torn = _gap(x, block, gap, members)
                if not torn and _load(a, block, members) <= target:
                    found[:] = block
                    wanted, status, most = held * (1 + TOLERANCE), 1, nodes + further
                    sets[6] = block
                    numbers[3] = 0.0
                break
            if held > fair and not _gap(x, block, gap, members) and _load(a, block, members) <= target:
                near[:] = block
                fair = held
            sets[6] = block
            numbers[3] = min(numbers[3], (wanted - held) / max(target - load, NOT_ZERO))
        if nodes == 1:
            first_price = numbers[0]
        if not alive:
            depth -= 1
            continue
        branch = -1
        if torn:
            branch = _beside(x, charge, sets, block, gap, members)
        elif numbers[2] > 0:
            for j in range(words):
                some[j] = sets[7, j] & ~sets[6, j] if numbers[3] < np.inf else sets[7, j]
            branch = _branch(charge, sets, some, members)
        if branch < 0:
            branch = _branch(charge, sets, everywhere, members)
        if branch < 0:
            # All is decided.
            held = 0.0
            for v in members[: listed(sets[0], members)]:
                held += charge[v]
            if held > wanted and _load(a, sets[0], members) <= target:
                found[:] = sets[0]
                wanted, status, most = held * (1 + TOLERANCE), 1, nodes + further
            depth -= 1
            continue
        if depth == deep:
            return (1 if status == 1 else 2), nodes, first_price
        at.capacity[depth] = at.capacity[d]
        at.sink[depth] = at.sink[d]
        at.supply[depth] = at.supply[d]
        at.sets[depth] = at.sets[d]
        at.numbers[depth] = at.numbers[d]
        add(sets[1], branch)
        include(x, at.sets[depth], branch)
        depth += 1
    return status, nodes, first_price
