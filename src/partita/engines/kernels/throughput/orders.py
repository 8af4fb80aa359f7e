"""Blocks of identical devices: what orders are worth when they are cut into blocks.

A block S costs Σ work + Σ cost of the nets with a pin in S and another outside. Where memory is limited, what it holds
beyond the limit costs ``reload`` a byte, and an infinite ``reload`` forbids it. With the pins of a net at positions
p1 < … < pm of an order, every segment that contains some but not all of them pays. For a fixed right end r an array
``step`` keeps cost(l..r) = Σ_{q >= l} step[q], and taking a pin in as the new right end changes O(1) of its entries:
scanning l downwards costs O(1) a segment.

Source: Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference" (ICML 2024), §4 and App. B:
slicing an order, sorting by priorities. The suffix sums take the place of their two-dimensional tree, and allow any
nets.
"""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.rows import pins_of, sets_with
from partita.engines.kernels.throughput import slicing
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.linear_orders import linearise
from partita.engines.kernels.throughput.stage_loads import segment_loads
from partita.ground.rounding import NOT_ZERO


@inlined
def _enter(a: BlockProblem, met: slicing.Met, v: int, r: int, step: Floats, room: Floats) -> None:
    """Take in v as the right end: ``step`` for nets, ``room`` for bytes."""
    for e in sets_with(a.net, v):
        slicing.meet_net(met, e, r)
        slicing.pay_along(a, met, e, r, a.cost[e], a.cost[e], step)
        met.last[e] = r
    if a.limit[0] != np.inf:
        slicing.hold_along(a, met, v, r, a.held, a.cover_bytes, room)
        slicing.meet_covers(a, met, v, r)


@inlined
def reload_cost(a: BlockProblem, held: float, space: float) -> float:
    """What memory over the limit costs."""
    over = held + space - a.limit[0]
    return over * a.limit[1] if over > 0.0 else 0.0


@compiled
def cut_order(
    a: BlockProblem, order: Ints, limit: float, fewest: Ints | None, value: Floats | None, back: Ints, stop: Longs
) -> None:
    """Cut every prefix of the order into blocks of cost at most ``limit``; exact. A raised ``stop`` ends it.

    ``fewest`` (n + 1,) is filled with how few blocks each takes, 2^30 for none, and ``back`` with the start of the last
    one. Or, where that is None, ``value`` (n + 1, k + 1) with the best largest cost of at most j blocks, infinite for
    none, for all j at once; ``back`` has its shape then. What ends early says none.
    """
    n, none, limited = order.shape[0], 1 << 30, a.limit[0] != np.inf
    met, step, room = slicing.nothing_met(a.cost.shape[0], a.cover_bytes.shape[0]), np.zeros(n), np.zeros(n)
    if fewest is not None:
        fewest[:] = none
        fewest[0] = 0
    if value is not None:
        value[:] = np.inf
        value[0, :] = 0.0
    for r in range(n):
        _enter(a, met, order[r], r, step, room)
        work, cut, held, space = 0.0, 0.0, 0.0, 0.0
        best = none
        for left in range(r, -1, -1):
            work += a.work[order[left]]
            if work > limit:
                break
            cut += step[left]
            if limited:
                held += room[left]
                space = max(space, a.workspace[order[left]])
            if fewest is not None and fewest[left] + 1 >= best:
                continue
            cost = work + cut
            if limited:
                cost += reload_cost(a, held, space)
            if cost > limit:
                continue
            if fewest is not None:
                best = fewest[left] + 1
                back[r + 1] = left
            if value is not None:
                for j in range(1, value.shape[1]):
                    worst = max(value[left, j - 1], cost)
                    if worst < value[r + 1, j]:
                        value[r + 1, j] = worst
                        back[r + 1, j] = left
        if fewest is not None:
            fewest[r + 1] = best
        if (r & 255) == 0 and stop[0] != 0:
            return


@compiled
def _block_costs(a: BlockProblem, label: Ints, costs: Floats) -> None:
    """Cost of every block of an assignment."""
    n, m, k = label.shape[0], a.cost.shape[0], costs.shape[0]
    alike = np.zeros(k, np.int32)
    segment_loads(a, a.work.reshape((1, n)), a.cost.reshape((1, m)), label, alike, costs)
    if a.limit[0] == np.inf:
        return
    held, space, covered = np.zeros(k), np.zeros(k), np.full(k, -1, np.int32)
    for v in range(n):
        held[label[v]] += a.held[v]
        space[label[v]] = max(space[label[v]], a.workspace[v])
    for c in range(a.cover_bytes.shape[0]):
        for u in pins_of(a.cover, c):
            b = label[u]
            if covered[b] != c:
                covered[b] = c
                held[b] += a.cover_bytes[c]
    for b in range(k):
        costs[b] += reload_cost(a, held[b], space[b])


def costs_of(a: BlockProblem, label: Ints) -> Floats:
    """(k,) cost of every block of a partition."""
    costs = np.zeros(a.devices)
    _block_costs(a, label, costs)
    return costs


@compiled
def decode(
    a: BlockProblem, keys: Floats, k: int, arrange: bool, above: Floats, results: Floats, orders: Ints, stop: Longs
) -> int:
    """Fitness of every row of ``keys`` (priorities of a topological sort, smallest first); how many were done.

    The fitness is the best largest cost of k blocks along the order, or with ``arrange`` the weighted arrangement
    Σ cost · (distance of a net's pins from its first pin). ``above`` holds a value that the first row is expected to
    stay below; it only saves time, and follows the results.
    """
    count, n = keys.shape
    stage = np.zeros(n, np.int64)
    value, back = np.empty((n + 1, k + 1)), np.empty((n + 1, k + 1), np.int32)
    place = np.empty(n, np.int32)
    for row in range(count):
        if stop[0] != 0:
            return row
        order = orders[row]
        linearise(a.graph, stage, keys[row], 0, order)
        if arrange:
            for i in range(n):
                place[order[i]] = i
            total = 0.0
            for e in range(a.cost.shape[0]):
                start, end = a.net.ptr[e], a.net.ptr[e + 1]
                earliest, sum_of = n, 0
                for p in range(start, end):
                    earliest = min(earliest, place[a.net.pins[p]])
                    sum_of += place[a.net.pins[p]]
                total += a.cost[e] * (sum_of - (end - start) * earliest)
            results[row] = total
            continue
        top = above[0]
        while True:
            cut_order(a, order, np.nextafter(top, -np.inf), None, value, back, stop)
            if stop[0] != 0:
                return row
            results[row] = value[n, k]
            if results[row] < np.inf or top == np.inf:
                break
            top = top * 1.3 if top < above[1] else np.inf
        if results[row] < np.inf:
            above[0] = results[row] * 1.1 + NOT_ZERO
    return int(count)
