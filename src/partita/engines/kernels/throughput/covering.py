"""Is there a block of load at most a target that carries more than so much charge? Depth-first search over items.

A block is convex: with two items it holds all between them. Items are taken in or left out one by one; what that
implies (items between, conflicts, items that would leave a gap) follows at once. A node ends when a knapsack says so:
each undecided item has a *weight*, a lower bound on what it adds to the load, and the charge that fits into what is
left of the target is too small. Weights add up to at most the load of any completion, as every net spreads its cost:

- a net with an item in and one out is paid; one with an item in and none out is paid too, and its cost is credited to
  its undecided items in equal parts, so that only taking all of them saves it;
- a net with an item out and none in, or with items that never share a block, charges each undecided item an equal part
  of its cost, the parts of as many as can be in together adding up to it;
- an untouched net may move weight between its items: what some gain, at most its cost, others lose. Where the gains go
  is chosen once for each anchor, from items that are cheap for their charge to those that are dear.

The two last rules are one dual solution of a minimum cut; the spreading is in the spirit of Lagrangian bounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bytes, Floats, Ints, Longs, Words
from partita.engines.kernels.bits import add, has
from partita.engines.kernels.compiled import called_allocating_nothing, compiled, inlined
from partita.engines.kernels.rows import pins_of, sets_with
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.convex_sets import Exclusions, close, include
from partita.ground.rounding import SUMMED_FEW, TOLERANCE

#: Sweeps over the untouched nets when weight is moved at an anchor.
SWEEPS = 30


class _Decided(NamedTuple):
    """Where the search stands: 0 undecided, 1 in, 2 out; weights; pins in and out of every net; gains by pin."""

    status: Bytes
    weight: Floats
    inside: Ints
    outside: Ints
    gain: Floats


@inlined
def _untouched(x: Exclusions, s: _Decided, e: int) -> bool:
    """Whether a net without a decided pin moves weight between its items, as ``gain`` says."""
    return bool(s.inside[e] + s.outside[e] == 0 and x.split[e] == 0)


@inlined
def _part(a: BlockProblem, x: Exclusions, s: _Decided, e: int) -> float:
    """What a touched or split net adds to the weight of its undecided pins."""
    if _untouched(x, s, e):
        return 0.0
    if s.inside[e] > 0:
        if s.outside[e] > 0 or x.split[e] != 0:
            return 0.0
        return float(-a.cost[e] / max(1, a.net.ptr[e + 1] - a.net.ptr[e] - s.inside[e]))
    return float(a.cost[e] / max(1, min(x.together[e], a.net.ptr[e + 1] - a.net.ptr[e] - s.outside[e])))


@inlined
def _decide(a: BlockProblem, x: Exclusions, s: _Decided, v: int, value: int, sign: int) -> float:
    """Take v in (1) or leave it out (2), or undo that (sign -1); returns the change of the load."""
    change = 0.0
    if sign > 0:
        s.status[v] = value
    for e in sets_with(a.net, v):
        size = a.net.ptr[e + 1] - a.net.ptr[e]
        if 0 < s.inside[e] < size:
            change -= a.cost[e]
        before, old = _untouched(x, s, e), _part(a, x, s, e)
        if value == 1:
            s.inside[e] += sign
        else:
            s.outside[e] += sign
        if 0 < s.inside[e] < size:
            change += a.cost[e]
        after, new = _untouched(x, s, e), _part(a, x, s, e)
        if before != after or old != new:
            way = int(after) - int(before)
            for p in range(a.net.ptr[e], a.net.ptr[e + 1]):
                u = a.net.pins[p]
                if s.status[u] == 0:
                    s.weight[u] += new - old + way * s.gain[p]
    if value == 1:
        change += sign * a.work[v]
    if sign < 0:
        s.status[v] = 0
        weight = a.work[v]
        for e in sets_with(a.net, v):
            weight += _part(a, x, s, e)
            if _untouched(x, s, e):
                for p in range(a.net.ptr[e], a.net.ptr[e + 1]):
                    if a.net.pins[p] == v:
                        weight += s.gain[p]
        s.weight[v] = weight
    return change


@called_allocating_nothing
def _knapsack(
    s: _Decided, charge: Floats, capacity: float, carried: float, tiny: float, places: Longs, ratios: Floats
) -> tuple[float, float]:
    """Most charge that may still be reached, and the price of load at which items are worth taking.

    Items of weight at most ``tiny`` for their charge count as weightless, which allows no less.
    """
    count = 0
    for v in range(charge.shape[0]):
        if s.status[v] == 0:
            if s.weight[v] <= tiny * charge[v]:
                capacity -= min(0.0, s.weight[v])
                carried += charge[v]
            elif charge[v] > 0:
                ratios[count] = charge[v] / s.weight[v]
                places[count] = v
                count += 1
    if capacity < 0:
        return -1.0, 0.0
    while count > 0:
        top = 0
        for q in range(1, count):
            if ratios[q] > ratios[top]:
                top = q
        v = places[top]
        if s.weight[v] > capacity:
            return carried + ratios[top] * capacity, ratios[top]
        capacity -= s.weight[v]
        carried += charge[v]
        count -= 1
        places[top], ratios[top] = places[count], ratios[count]
    return carried, 0.0


@called_allocating_nothing
def _move_weight(
    a: BlockProblem, x: Exclusions, s: _Decided, charge: Floats, price: float, profit: Floats, left: Floats
) -> None:
    """Move weight inside untouched nets, from unprofitable items to profitable ones."""
    for v in range(charge.shape[0]):
        profit[v] = charge[v] - price * s.weight[v] if s.status[v] == 0 else 0.0
    for e in range(left.shape[0]):
        left[e] = price * a.cost[e]
    for _sweep in range(SWEEPS):
        moved = False
        for e in range(left.shape[0]):
            if not _untouched(x, s, e) or left[e] <= SUMMED_FEW:
                continue
            high = low = a.net.ptr[e]
            for p in range(a.net.ptr[e] + 1, a.net.ptr[e + 1]):
                if profit[a.net.pins[p]] > profit[a.net.pins[high]]:
                    high = p
                if profit[a.net.pins[p]] < profit[a.net.pins[low]]:
                    low = p
            u, v = a.net.pins[high], a.net.pins[low]
            if profit[u] <= SUMMED_FEW:
                continue
            amount = 0.5 * (profit[u] - profit[v])
            if profit[v] < 0:
                amount = max(amount, min(profit[u], -profit[v]))
            amount = min(amount, left[e])
            if amount > TOLERANCE:
                moved = True
                profit[u] -= amount
                profit[v] += amount
                left[e] -= amount
                s.gain[high] += amount / price
                s.gain[low] -= amount / price
                s.weight[u] += amount / price
                s.weight[v] -= amount / price
        if not moved:
            return


@compiled
def search_block(
    a: BlockProblem,
    x: Exclusions,
    charge: Floats,
    target: float,
    wanted: float,
    anchor: int,
    most: int,
    stop: Longs,
    found: Words,
) -> tuple[int, int]:
    """Look for a convex block with this anchor, its first item in the numbering, load <= target, charge > wanted.

    Charges are (n,), not negative. The search gives up after ``most`` nodes, or when the flag ``stop`` is raised; the
    block goes into the bit set ``found``. Returns 0 for none, 1 for one found, 2 if it gave up, and the nodes.
    """
    n, m, words = a.work.shape[0], a.cost.shape[0], x.after.shape[1]
    s = _Decided(
        np.zeros(n, np.int8), a.work.copy(), np.zeros(m, np.int32), np.zeros(m, np.int32), np.zeros(a.net.pins.shape[0])
    )
    for e in range(m):
        if x.split[e] != 0:
            for u in pins_of(a.net, e):
                s.weight[u] += _part(a, x, s, e)
    tiny = TOLERANCE * target
    stack, mark = np.zeros((2 * n + 4, 4, words), np.uint64), np.zeros(2 * n + 4, np.int64)
    trail = np.zeros(n, np.int64)
    places, ratios = np.zeros(n, np.int64), np.zeros(n)
    profit, left = np.zeros(n), np.zeros(m)
    sets, some, members = np.zeros((4, words), np.uint64), np.zeros(words, np.uint64), np.zeros(n, np.int32)
    taken, left_out = sets[0], sets[1]
    for v in range(anchor):
        add(stack[0, 1], v)
    include(x, stack[0], anchor)
    depth, done, nodes = 1, 0, 0
    load, carried = 0.0, 0.0
    while depth > 0:
        depth -= 1
        while done > mark[depth]:
            done -= 1
            v = trail[done]
            value = s.status[v]
            load += _decide(a, x, s, v, value, -1)
            if value == 1:
                carried -= charge[v]
        sets[:] = stack[depth]
        nodes += 1
        if nodes > most or stop[0] != 0:
            return 2, nodes
        alive = changed = True
        while changed:
            alive, changed = close(x, sets, some, members), False
            if not alive:
                break
            for v in range(n):
                if s.status[v] == 0:
                    if has(taken, v):
                        load += _decide(a, x, s, v, 1, 1)
                        carried += charge[v]
                    elif has(left_out, v):
                        load += _decide(a, x, s, v, 2, 1)
                    else:
                        continue
                    trail[done] = v
                    done += 1
            if load <= target and carried > wanted:
                found[:] = sets[0]
                return 1, nodes
            best, price = _knapsack(s, charge, target - load, carried, tiny, places, ratios)
            if nodes == 1 and best > wanted and price > 0:
                _move_weight(a, x, s, charge, price, profit, left)
                best, price = _knapsack(s, charge, target - load, carried, tiny, places, ratios)
            alive = best > wanted
            for v in range(n if alive else 0):
                if s.status[v] == 0:
                    profitable = charge[v] - price * s.weight[v]
                    if profitable <= 0 and best + profitable <= wanted:
                        add(left_out, v)
                        changed = True
                    elif profitable > 0 and best - profitable <= wanted:
                        include(x, sets, v)
                        changed = True
        if not alive:
            continue
        branch = -1
        for v in range(n):
            if s.status[v] == 0 and (branch < 0 or charge[v] > charge[branch]):
                branch = v
        if branch < 0:
            continue
        stack[depth] = stack[depth + 1] = sets
        add(stack[depth, 1], branch)
        include(x, stack[depth + 1], branch)
        mark[depth] = mark[depth + 1] = done
        depth += 2
    return 0, nodes


@compiled
def longest_segments(a: BlockProblem, order: Longs, target: float) -> Longs:
    """For each place of an order the length of the longest segment from there with load <= target."""
    n = order.shape[0]
    lengths = np.zeros(n, np.int64)
    inside = np.zeros(a.cost.shape[0], np.int32)
    for start in range(n):
        load, work, end = 0.0, 0.0, start
        while end < n and work <= target:
            v = order[end]
            load += a.work[v]
            work += a.work[v]
            for e in sets_with(a.net, v):
                if inside[e] > 0:
                    load -= a.cost[e]
                inside[e] += 1
                if inside[e] < a.net.ptr[e + 1] - a.net.ptr[e]:
                    load += a.cost[e]
            end += 1
            if load <= target:
                lengths[start] = end - start
        for place in range(start, end):
            v = order[place]
            for e in sets_with(a.net, v):
                inside[e] = 0
    return lengths
