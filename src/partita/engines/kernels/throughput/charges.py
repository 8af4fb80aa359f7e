"""Charges and shares: what each item adds to any block it is in, and how many blocks items need.

Cut nets are charged to their pins such that no block is charged more than the net costs. Shares are weights such that
no block holds more than one in all; as many blocks are needed as there are shares. Both are dual solutions of covering
items by blocks: from any valid weights each item's weight may grow by what its heaviest block leaves free.

The most of some weights z that a block with an item can hold is bounded by Lagrange multipliers and minimum cuts. A
block S with v costs f(S) <= T and avoids what cannot be beside v. For any price µ >= 0 per unit of load,

    z(S) <= µ·T + max over such S of (z(S) - µ·f(S)),

and the maximum is a minimum cut. As a function of µ the right side is the maximum of one line for each set, so a few
sets and the crossings of their lines lead to the least value. Without items to avoid this could always take everything,
which has no cut nets; with them, it says how much a block must pay to be large.
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Words
from partita.engines.kernels.bits import has, listed
from partita.engines.kernels.compiled import called, compiled, inlined
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.forced_cuts import TargetFacts
from partita.engines.kernels.throughput.mincut import BlockNetwork, cheapest_block, new_flow, respect_order
from partita.ground.rounding import NOT_ZERO, SUMMED_FEW, TOLERANCE

#: Steps of one search for the heaviest block of an item.
BUDGET = 300
#: Times that all cut nets are charged anew, with what the others have charged.
ROUNDS = 2


@inlined
def _fractional(others: Ints, start: int, weight: Floats, size: Floats, room: float, value: float) -> float:
    """``value`` with the fractional knapsack of ``others`` from ``start`` on."""
    for i in range(start, others.shape[0]):
        x = others[i]
        if size[x] > room:
            return float(value + weight[x] * room / size[x])
        room -= size[x]
        value += weight[x]
    return value


@called
def _heaviest(others: Ints, weight: Floats, size: Floats, room: float, apart: Words, enough: float) -> float:
    """Upper bound on the weight of items among ``others`` (by decreasing weight / size) that fit into ``room``.

    Exact over sets of which no two are apart, unless the search takes more than ``BUDGET`` steps; then it is the
    fractional knapsack. It ends early where ``enough`` is reached.
    """
    count = others.shape[0]
    best = 0.0
    chosen = np.empty(count, np.int32)
    depth, place = 0, 0
    value, free = 0.0, room
    for _ in range(BUDGET):
        advanced = False
        if place < count:
            # What the rest can add at most.
            ahead = _fractional(others, place, weight, size, free, value)
            if ahead > best * (1 + SUMMED_FEW):
                x = others[place]
                fits = size[x] <= free * (1 + SUMMED_FEW)
                for i in range(depth):
                    y = others[chosen[i]]
                    if has(apart[x], y):
                        fits = False
                        break
                if fits:
                    chosen[depth] = place
                    depth += 1
                    value += weight[x]
                    free -= size[x]
                    if value > best:
                        best = value
                        if best >= enough:
                            return float(best)
                place += 1
                advanced = True
        if not advanced:
            if depth == 0:
                return float(best)
            depth -= 1
            x = others[chosen[depth]]
            value -= weight[x]
            free += size[x]
            place = chosen[depth] + 1
    return _fractional(others, 0, weight, size, max(0.0, room), 0.0)


@compiled
def raise_shares(items: Ints, share: Floats, size: Floats, room: float, apart: Words) -> float:
    """Raise the shares of items in the given order as far as no block can exceed one; the sum afterwards."""
    others, ratio = np.empty_like(items), np.empty(items.shape[0])
    total = 0.0
    for v in items:
        found = 0
        for x in items:
            if x == v or share[x] <= 0:
                continue
            if size[x] + size[v] > room or has(apart[v], x):
                continue
            ratio[found] = -share[x] / max(size[x], NOT_ZERO)
            others[found] = x
            found += 1
        by_ratio = others[:found][np.argsort(ratio[:found])]
        most = _heaviest(by_ratio, share, size, room - size[v], apart, 1 - share[v])
        share[v] = max(share[v], 1.0 - most * (1 + SUMMED_FEW))
        total += share[v]
    return total


@compiled
def charge_nets(a: BlockProblem, parts: TargetFacts, limit: float) -> Floats:
    """Work with forced nets charged to their pins, valid for blocks of load at most ``limit``."""
    n, m = a.work.shape[0], a.cost.shape[0]
    pairs = parts.apart.shape[0] > 0
    charge = a.work.copy()
    part = np.zeros(a.net.pins.shape[0])
    for e in range(m):
        low, high = a.net.ptr[e], a.net.ptr[e + 1]
        if parts.forced[e] and high - low == 2:
            for q in range(low, high):
                charge[a.net.pins[q]] += a.cost[e]
    share, best = np.zeros(n), np.zeros(n)
    for _ in range(ROUNDS):
        for e in range(m):
            low, high = a.net.ptr[e], a.net.ptr[e + 1]
            if not parts.forced[e] or high - low == 2:
                continue
            pins = a.net.pins[low:high]
            for q in range(low, high):
                charge[a.net.pins[q]] -= part[q]
            room = limit - a.cost[e]
            if not pairs:
                # In proportion to what a block can hold of the pins.
                total = 0.0
                for v in pins:
                    total += charge[v]
                scale = a.cost[e] / max(min(room, total), NOT_ZERO)
                for q in range(low, high):
                    part[q] = charge[a.net.pins[q]] * scale * (1 - SUMMED_FEW)
                    charge[a.net.pins[q]] += part[q]
                continue
            most = -1.0
            by_size = pins[np.argsort(-charge[pins])]
            for variant in range(3):
                for v in pins:
                    # One pin for all, in proportion to size, in equal parts of what fits by number.
                    share[v] = 0.0
                    if variant == 1:
                        share[v] = charge[v] / max(room, NOT_ZERO)
                    elif variant == 2:
                        share[v] = 1.0 / _number(pins, charge, room)
                total = raise_shares(by_size, share, charge, room, parts.apart)
                if total > most * (1 + TOLERANCE):
                    most = total
                    for v in pins:
                        best[v] = share[v]
            for q in range(low, high):
                v = a.net.pins[q]
                part[q] = a.cost[e] * best[v] * (1 - SUMMED_FEW)
                charge[v] += part[q]
    return charge


@compiled
def _number(pins: Ints, size: Floats, room: float) -> int:
    """Most pins that fit into a block."""
    left, count = room * (1 + SUMMED_FEW), 0
    for s in np.sort(size[pins]):
        if s > left:
            break
        left -= s
        count += 1
    return max(1, count)


@compiled
def tighten_windows(a: BlockProblem, parts: TargetFacts, share: Floats, devices: int) -> tuple[int, bool]:
    """Move the first and last blocks of items closer; how many moved, and whether there is no split.

    What lies before an item needs as many blocks as it has shares, and so does what of it cannot be early. Items that
    must be within some blocks have at most one share a block.
    """
    n = a.work.shape[0]
    first, last, apart = parts.first, parts.last, parts.apart
    pairs = apart.shape[0] > 0
    sums, members = np.zeros(devices), np.empty(n, np.int32)
    moved = 0
    for direction in range(2):
        rows, start, end = parts.earlier, first, last
        if direction == 1:
            # Seen from the other end, last blocks are first ones.
            rows = parts.later
            start, end = (devices - 1 - last).astype(np.int32), (devices - 1 - first).astype(np.int32)
        for i in range(n):
            v = i if direction == 0 else n - 1 - i
            sums[:] = 0.0
            at = int(start[v])
            for u in members[: listed(rows[v], members)]:
                since = int(start[u])
                if u != v:
                    at = max(at, since)
                    if pairs and has(apart[u], v):
                        at = max(at, since + 1)
                if since < devices:
                    sums[since] += share[u]
            total = 0.0
            for j in range(devices - 1, -1, -1):
                total += sums[j]
                if total > 0:
                    at = max(at, j - 1 + int(np.ceil(total * (1 - TOLERANCE))))
            if at > end[v]:
                return moved, True
            if at > start[v]:
                moved += 1
                start[v] = at
        if direction == 1:
            last[:] = devices - 1 - start
    return _within(first, last, share, devices, moved)


@compiled
def _within(first: Ints, last: Ints, share: Floats, devices: int, moved: int) -> tuple[int, bool]:
    """Shares of the items that must be within blocks a … b, and who cannot be there in addition."""
    n = first.shape[0]
    inside = np.zeros((devices + 1, devices + 1))
    for v in range(n):
        inside[first[v], last[v]] += share[v]
    # Sums over first >= a and last <= b.
    for a in range(devices - 1, -1, -1):
        row = 0.0
        for b in range(devices):
            row += inside[a, b]
            inside[a, b] = row + inside[a + 1, b]
            if b >= a and inside[a, b] * (1 - TOLERANCE) > b - a + 1:
                return moved, True
    for v in range(n):
        f, g = first[v], last[v]
        for a in range(f + 1):
            for b in range(g - 1, f - 1, -1):
                if inside[a, b] + share[v] > (b - a + 1) * (1 + TOLERANCE):
                    first[v] = max(first[v], b + 1)
                    break
        for b in range(g, devices):
            for a in range(f + 1, g + 1):
                if inside[a, b] + share[v] > (b - a + 1) * (1 + TOLERANCE):
                    last[v] = min(last[v], a - 1)
                    break
        if first[v] > f or last[v] < g:
            moved += 1
        if first[v] > last[v]:
            return moved, True
    return moved, False


#: Most cuts for each item.
CUTS = 5


@compiled
def heaviest_blocks(
    a: BlockProblem,
    parts: TargetFacts,
    network: BlockNetwork,
    weight: Floats,
    limit: float,
    start: int,
    count: int,
    rates: Floats,
    most: Floats,
) -> None:
    """Lower ``most`` of ``count`` items from ``start``: an upper bound on the weight of any feasible block with it.

    ``weight`` is (n,), not negative; ``limit`` is the largest load of a block, at which the ``parts`` hold, and the
    network has their nets forced. ``rates`` (n,) keeps the load that a unit of weight was worth in the end, where to
    start from the next time; 0 for not known.
    """
    n = a.work.shape[0]
    flow = new_flow(network)
    sink = flow.sink
    supply = np.zeros(n)
    avoid = np.zeros(n, np.int8)
    sources = np.empty(n, np.int32)
    for v in range(start, min(n, start + count)):
        everything = 0.0
        for u in range(n):
            avoid[u] = has(parts.apart[v], u)
            if not avoid[u]:
                everything += weight[u]
        most[v] = min(most[v], everything * (1 + SUMMED_FEW))
        # Lines: weight + µ·(limit - cost), of a cheap and of a dear set; a unit of weight is worth ``rate`` load.
        low_weight, low_room = weight[v], 0.0
        high_weight, high_room = everything, 0.0
        rate = rates[v] if rates[v] > 0 else limit / max(most[v], NOT_ZERO)
        lowest = np.inf
        have_low, have_high = False, False
        for _ in range(CUTS):
            constant = 0.0
            found = 0
            sink[:] = network.sink
            for u in range(n):
                supply[u] = 0.0
                if u == v:
                    supply[u] = np.inf
                    constant -= rate * weight[u]
                    sources[found] = u
                    found += 1
                elif not avoid[u]:
                    gain = rate * weight[u] - sink[u]
                    if gain > 0:
                        supply[u] = gain
                        sink[u] = 0.0
                        constant -= gain
                        sources[found] = u
                        found += 1
                    else:
                        sink[u] = -gain
            flow.capacity[:] = network.capacity
            respect_order(network, parts.later[v], parts.earlier[v], flow.capacity)
            cost = cheapest_block(network, sources[:found], supply, avoid, np.inf, flow)
            least = cost + constant
            # Rounding of the flow may be as large as ``network.tiny`` on each arc; it is far below this.
            value = (limit - least) / rate * (1 + TOLERANCE) + SUMMED_FEW
            most[v] = min(most[v], value)
            if value < lowest:
                lowest = value
                rates[v] = rate
            held = 0.0
            for u in range(n):
                if flow.level[u] >= 0:
                    held += weight[u]
            # f of the set, as the cut counts it.
            load = least + rate * held
            if load > limit:
                if have_high and held >= high_weight - SUMMED_FEW:
                    break
                high_weight, high_room, have_high = held, limit - load, True
            else:
                if have_low and held <= low_weight + SUMMED_FEW:
                    break
                low_weight, low_room, have_low = held, limit - load, True
            if load <= limit and held >= most[v] - TOLERANCE:
                break
            if have_low and have_high:
                if high_weight <= low_weight or low_room - high_room <= 0:
                    break
                # The crossing of both lines; µ = 1 / rate.
                rate = (low_room - high_room) / (high_weight - low_weight)
            elif have_high:
                rate *= 0.7
            else:
                rate *= 1.4
