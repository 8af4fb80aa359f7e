"""What every schedule takes at least.

Heads and tails are what must pass before and after an operator on a device, with queues at its links. Energetic
reasoning asks what must run within windows of time, wherever it runs, beside what there is room for. Placements over a
forest of flows have a least weighted work, traffic and memory.
"""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints, Longs
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.makespan.arrays import MakespanArrays
from partita.ground.rounding import TOLERANCE

#: Weights of the device against the link, in tenths.
_TENTHS = 10


@compiled
def find_labels(a: MakespanArrays, order: Longs, time: Floats, head: Floats, tail: Floats) -> None:
    """Fill (n, D) lower bounds on the end of every operator on a device, and on what follows that end.

    Chains: v on d starts no earlier than, for each producer, the least over its devices of its label and the transfer.

    Queues: let v start on d at s, and take producers whose data is, or which start, no earlier than r. Those on d run
    one by one within [r, s]; flows of the others enter d one by one within it. So s − r is at least w times the time of
    the former plus 1 − w times that of the latter, for every weight w, and at least Σ min(w · time of the producer on
    d, (1 − w) · its least transfer to d), wherever the producers are. The same holds backwards for readers of v, which
    run where v did or whose flows leave there one by one.

    ``time`` (n, D) stands for the problem's: it and the head are infinite where an operator is not to be. ``order`` is
    topological.
    """
    n, devices = time.shape
    most = 1
    for v in range(n):
        most = max(most, a.graph.pred_ptr[v + 1] - a.graph.pred_ptr[v], a.graph.succ_ptr[v + 1] - a.graph.succ_ptr[v])
    queued, summed = np.empty((3, most)), np.empty(devices)
    for place in range(n):
        v = order[place]
        for d in range(devices):
            head[v, d] = math.inf
            if time[v, d] < math.inf:
                head[v, d] = _passes(a, True, time, head, v, d, queued, summed) + time[v, d]
    for place in range(n - 1, -1, -1):
        v = order[place]
        for d in range(devices):
            tail[v, d] = _passes(a, False, time, tail, v, d, queued, summed)


@inlined
def _moving(a: MakespanArrays, f: int, c: int, d: int, forwards: bool) -> float:
    """Time of a flow, if it is one, from c to d, or backwards."""
    if f < 0:
        return 0.0
    return float(a.cost[f, c, d] if forwards else a.cost[f, d, c])


@compiled
def _passes(
    a: MakespanArrays, forwards: bool, time: Floats, label: Floats, v: int, d: int, queued: Floats, summed: Floats
) -> float:
    """What passes before an operator can start on a device, or backwards after it has ended there.

    ``label`` is the head or the tail, ``queued`` (3, edges) and ``summed`` (D,) are scratch.
    """
    release, here, there = queued[0], queued[1], queued[2]
    ptr, others, flows = a.graph.pred_ptr, a.graph.pred, a.in_flow
    if not forwards:
        ptr, others, flows = a.graph.succ_ptr, a.graph.succ, a.out_flow
    queues = a.serial[0] and a.serial[2 if forwards else 1] and ptr[v + 1] - ptr[v] > 1
    reached, count = 0.0, 0
    for e in range(ptr[v], ptr[v + 1]):
        u, f = others[e], flows[e]
        least = math.inf
        for c in range(time.shape[1]):
            if time[u, c] < math.inf:
                moved = _moving(a, f, c, d, forwards)
                least = min(least, moved + label[u, c] if forwards else moved + time[u, c] + label[u, c])
        reached = max(reached, least)
        if f < 0 or not queues:
            continue
        # All flows of one producer together, once.
        again = False
        summed[:] = 0.0
        for other in range(ptr[v], ptr[v + 1]):
            if others[other] == u and flows[other] >= 0:
                again = again or other < e
                for c in range(time.shape[1]):
                    summed[c] += _moving(a, flows[other], c, d, forwards)
        if again:
            continue
        here[count], there[count], release[count] = time[u, d], math.inf, math.inf
        if time[u, d] < math.inf:
            release[count] = label[u, d] - time[u, d] if forwards else label[u, d]
        for c in range(time.shape[1]):
            if c != d and time[u, c] < math.inf:
                there[count] = min(there[count], summed[c])
                release[count] = min(release[count], label[u, c] if forwards else time[u, c] + label[u, c])
        count += 1
    return max(reached, _queue(release, here, there, count)) if count > 1 else reached


@compiled
def _queue(release: Floats, here: Floats, there: Floats, count: int) -> float:
    """The largest of r + Σ min(w · here, (1 − w) · there), over those released at r or later, for any r and w."""
    best = 0.0
    for tenth in range(1, _TENTHS):
        w = tenth / _TENTHS
        for first in range(count):
            if release[first] == math.inf:
                # It can be nowhere.
                return math.inf
            total = release[first]
            for k in range(count):
                if release[k] >= release[first]:
                    total += min(w * here[k], (1.0 - w) * there[k])
            best = max(best, total)
    return best


#: Steps in the weights of the devices; windows whose first value is below this share are left.
_STEPS, _FAR = 24, 0.7


@compiled
def overfull(
    a: MakespanArrays,
    time: Floats,
    head: Floats,
    tail: Floats,
    horizon: float,
    opens: Floats,
    closes: Floats,
    stop: Longs,
) -> bool:
    """Whether some window of time holds more work than all devices can do in it, if everything ends by the horizon.

    An operator on d runs within [head − time, horizon − tail]. Of that, the lesser of its overlap with [t₁, t₂] when it
    runs as early and as late as it can must fall into the window. Let the devices have weights w ≥ 0 with Σ w = 1. No
    device works longer than t₂ − t₁ within it, so that the sum over operators (those that run together as one) of the
    least over devices of w · energy must not exceed t₂ − t₁.

    ``time``, ``head`` and ``tail`` (n, D) are as in ``find_labels``; ``opens`` and ``closes`` are starts and ends of
    windows to look at, and any value but 0 of ``stop`` (1,) ends the search.
    """
    n, devices = time.shape
    groups = a.group.ptr.shape[0] - 1
    energy = np.zeros((groups, devices))
    weights = np.empty(devices)
    load = np.empty(devices)
    for opened in opens:
        for closed in closes:
            length = closed - opened
            if stop[0] != 0:
                return False
            if length <= 0:
                continue
            energy[:] = 0.0
            for v in range(n):
                for d in range(devices):
                    lasts = time[v, d]
                    if lasts == math.inf:
                        energy[a.group.of[v], d] = math.inf
                        continue
                    early, late = head[v, d] - lasts, horizon - tail[v, d] - lasts
                    inside = min(
                        min(early + lasts, closed) - max(early, opened), min(late + lasts, closed) - max(late, opened)
                    )
                    if inside > 0:
                        energy[a.group.of[v], d] += inside
            weights[:] = 1.0 / devices
            for step in range(_STEPS):
                total = 0.0
                load[:] = 0.0
                for g in range(groups):
                    least, chosen = math.inf, -1
                    for d in range(devices):
                        if energy[g, d] < math.inf and weights[d] * energy[g, d] < least:
                            least, chosen = weights[d] * energy[g, d], d
                    if chosen < 0:
                        return True
                    total += least
                    load[chosen] += energy[g, chosen]
                if total > length * (1.0 + TOLERANCE) + TOLERANCE * horizon:
                    return True
                if total < _FAR * length:
                    break
                summed = 0.0
                for d in range(devices):
                    weights[d] *= math.exp(min(4.0, max(-4.0, (load[d] / total - 1.0) / math.sqrt(step + 4.0))))
                    summed += weights[d]
                weights /= summed
    return False


@compiled
def cheapest_placement(
    a: MakespanArrays,
    able: Bools,
    order: Longs,
    parent: Ints,
    flow: Ints,
    through: Floats,
    along: Floats,
    chain: float,
    weights: Floats,
    price: Floats,
    device: Ints,
    used: Floats,
    held: Floats,
) -> float:
    """The least over the devices of all operators of the weighted sum, and what the placement found takes.

    ``able`` (n, D) says where operators may be, ``order`` is topological; ``parent`` and ``flow`` (n,) are of every
    operator one that it waits for and the flow between them, −1 for none. Chains together have a weight, ``chain``;
    ``through`` (n,) is the share of them that goes through an operator, ``along`` (n,) that which comes to it from its
    parent. ``weights`` (3, D) are of the work of devices, of what leaves them and of what enters them, ``price`` (D,)
    of memory. ``device`` (n,) gets the placement, ``used`` (3·D + 1,), work, traffic and last the mean length of the
    chains, and ``held`` (D,) what it takes.
    """
    n, devices = able.shape
    cost = np.empty((n, devices))
    pick = np.zeros((n, devices), dtype=np.int32)
    for v in range(n):
        for d in range(devices):
            if able[v, d]:
                weight = weights[0, d] + chain * through[v]
                cost[v, d] = weight * a.time[v, d] + price[d] * a.memory[v]
            else:
                cost[v, d] = math.inf
    total = 0.0
    for place in range(n - 1, -1, -1):
        v = order[place]
        u, f = parent[v], flow[v]
        if u < 0:
            total += cost[v].min()
            continue
        for c in range(devices):
            if not able[u, c]:
                continue
            least, chosen = math.inf, 0
            for d in range(devices):
                value = cost[v, d]
                if f >= 0 and c != d:
                    weight = weights[1, c] + weights[2, d] + chain * along[v]
                    value += weight * a.cost[f, c, d]
                if value < least:
                    least, chosen = value, d
            pick[v, c] = chosen
            cost[u, c] += least
    used[:] = 0.0
    held[:] = 0.0
    for place in range(n):
        v = order[place]
        u, f = parent[v], flow[v]
        d = int(pick[v, device[u]]) if u >= 0 else int(np.argmin(cost[v]))
        device[v] = d
        used[d] += a.time[v, d]
        held[d] += a.memory[v]
        used[3 * devices] += through[v] * a.time[v, d]
        if u >= 0 and f >= 0 and device[u] != d:
            moved = a.cost[f, device[u], d]
            used[devices + device[u]] += moved
            used[2 * devices + d] += moved
            used[3 * devices] += along[v] * moved
    return total


@compiled
def longest_chain(
    a: MakespanArrays, order: Longs, parent: Ints, takes: Floats, moves: Floats, through: Floats, along: Floats
) -> None:
    """Mark a longest chain where operators take so long (n,), and what comes from their parents is moved so long (n,).

    ``through`` and ``along`` (n,) become 1 for operators on it, and for those whose parent is before them on it.
    """
    n = order.shape[0]
    rest, next_one = np.zeros(n), np.full(n, -1, dtype=np.int64)
    first = -1
    for place in range(n - 1, -1, -1):
        v = order[place]
        for e in range(a.graph.succ_ptr[v], a.graph.succ_ptr[v + 1]):
            w = a.graph.succ[e]
            after = rest[w] + (moves[w] if parent[w] == v else 0.0)
            if next_one[v] < 0 or after > rest[v]:
                rest[v], next_one[v] = after, w
        rest[v] += takes[v]
        if first < 0 or rest[v] > rest[first]:
            first = v
    through[:] = 0.0
    along[:] = 0.0
    v = first
    while v >= 0:
        through[v] = 1.0
        w = next_one[v]
        if w >= 0 and parent[w] == v:
            along[w] = 1.0
        v = w
