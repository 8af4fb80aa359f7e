"""Anneal a partition into blocks: labels never fall along the order, and one item at a time changes its block.

An item may go anywhere between the largest label of its predecessors and the smallest of its successors; two may change
places. Pins per (net, block) tell what a move changes, and only two blocks change. The energy is Σ (cost / best)^power,
which follows the best partition met.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.kernels.arrays import Floats, Ints, Longs
from partita.kernels.compiled import compiled
from partita.kernels.throughput.arrays import Arrays
from partita.kernels.throughput.blocks import BlockProblem
from partita.kernels.throughput.orders import block_costs, held_by_blocks, reload_cost


class Cooling(NamedTuple):
    """So many ``trials``, temperatures that fall geometrically from ``start`` to ``end``, energies to a ``power``."""

    power: float
    start: float
    end: float
    trials: int
    seed: int


@compiled
def _power(x: float, power: int) -> float:
    """x to a positive power, by squaring."""
    result, square = 1.0, x
    while power > 0:
        if power & 1:
            result *= square
        square *= square
        power >>= 1
    return result


@compiled
def _set_energy(costs: Floats, best: float, power: int, energy: Floats) -> int:
    """Fill in every block's energy; how many blocks are not below the best."""
    high_blocks = 0
    for b in range(costs.shape[0]):
        energy[b] = _power(costs[b] / best, power)
        high_blocks += costs[b] >= best
    return high_blocks


@compiled
def _largest(values: Floats, label: Ints, block: int, without: int) -> float:
    """The largest value in a block, one item left out."""
    largest = 0.0
    for v in range(label.shape[0]):
        if label[v] == block and v != without:
            largest = max(largest, values[v])
    return largest


@compiled
def _gains(a: BlockProblem, pins: Ints, k: int, v: int, old: int, new: int) -> tuple[float, float]:
    """What the costs of two blocks, apart from memory, change by when v moves from one to the other."""
    gain_old, gain_new = -a.work[v], a.work[v]
    for p in range(a.net.item_ptr[v], a.net.item_ptr[v + 1]):
        e = a.net.of_item[p]
        size = a.net.ptr[e + 1] - a.net.ptr[e]
        here, there = pins[e * k + old], pins[e * k + new]
        if here == 1:
            gain_old -= a.cost[e]
        elif here == size:
            gain_old += a.cost[e]
        if there == 0:
            gain_new += a.cost[e]
        elif there + 1 == size:
            gain_new -= a.cost[e]
    return gain_old, gain_new


@compiled
def _shift(a: BlockProblem, pins: Ints, k: int, v: int, old: int, new: int) -> None:
    """Move v's pins."""
    for p in range(a.net.item_ptr[v], a.net.item_ptr[v + 1]):
        pins[a.net.of_item[p] * k + old] -= 1
        pins[a.net.of_item[p] * k + new] += 1


@compiled
def pins_in(a: BlockProblem | Arrays, label: Ints, k: int) -> Ints:
    """Pins of every net in every block, flat."""
    pins = np.zeros((a.net.ptr.shape[0] - 1) * k, np.int32)
    for e in range(a.net.ptr.shape[0] - 1):
        for p in range(a.net.ptr[e], a.net.ptr[e + 1]):
            pins[e * k + label[a.net.pins[p]]] += 1
    return pins


@compiled
def window(a: BlockProblem | Arrays, label: Ints, v: int, k: int) -> tuple[int, int]:
    """Blocks that v can be in while the others stay."""
    low, high = 0, k - 1
    for p in range(a.graph.pred_ptr[v], a.graph.pred_ptr[v + 1]):
        low = max(low, label[a.graph.pred[p]])
    if low < k - 1:
        for p in range(a.graph.succ_ptr[v], a.graph.succ_ptr[v + 1]):
            high = min(high, label[a.graph.succ[p]])
    return low, high


@compiled
def _adjacent(a: BlockProblem, v: int, u: int) -> bool:
    """Whether one of two items precedes the other directly."""
    for p in range(a.graph.succ_ptr[v], a.graph.succ_ptr[v + 1]):
        if a.graph.succ[p] == u:
            return True
    for p in range(a.graph.pred_ptr[v], a.graph.pred_ptr[v + 1]):  # noqa: SIM110 (compiled code knows no generators)
        if a.graph.pred[p] == u:
            return True
    return False


@compiled
def anneal_blocks(
    a: BlockProblem, label: Ints, kept: Ints, best: float, cooling: Cooling, swaps: float, stop: Longs
) -> float:
    """Anneal ``label``, a partition, in place; returns the largest cost of the best partition met.

    ``best`` is that of ``kept``, the best partition before, and ``kept`` is changed with it. So a long run can be made
    of short ones. A share ``swaps`` of the trials exchange two items (none where memory is limited). A partition that
    breaks a hard limit has infinite cost, and is left as it is. The energies' power is whole.
    """
    np.random.seed(cooling.seed)
    power, trials = int(cooling.power), cooling.trials
    n, k = label.shape[0], a.devices
    costs = np.empty(k)
    top = block_costs(a, label, costs)
    if top < best:
        best = top
        kept[:] = label
    if not (0.0 < top < np.inf) or k < 2:
        return best
    pins, limited = pins_in(a, label, k), a.limit[0] != np.inf
    held, space = np.zeros(k), np.zeros(k)
    users = held_by_blocks(a, label, held, space) if limited else pins
    energy = np.empty(k)
    high_blocks = _set_energy(costs, best, power, energy)
    temperature = cooling.start
    cool = (cooling.end / cooling.start) ** (1.0 / max(1, trials // 256))
    held_old, held_new, space_old, space_new, before_old, before_new = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for trial in range(trials):
        if (trial & 255) == 0:
            temperature *= cool
            if stop[0] != 0:
                break
        v = np.random.randint(0, n)
        old = label[v]
        low, high = window(a, label, v, k)
        if low >= high:
            continue
        u = -1
        if swaps > 0.0 and not limited and np.random.random() < swaps:
            # Exchange two items, where loads are a matter of few large ones.
            u = np.random.randint(0, n)
            new = label[u]
            if new == old or new < low or new > high:
                continue
            first, second = window(a, label, u, k)
            if old < first or old > second or _adjacent(a, v, u):
                continue
        else:
            new = np.random.randint(low, high)
            if new >= old:
                new += 1
        gain_old, gain_new = _gains(a, pins, k, v, old, new)
        cost_old, cost_new = costs[old] + gain_old, costs[new] + gain_new
        if u >= 0:
            _shift(a, pins, k, v, old, new)
            gain_new, gain_old = _gains(a, pins, k, u, new, old)
            cost_old += gain_old
            cost_new += gain_new
        if limited:
            before_old, before_new = reload_cost(a, held[old], space[old]), reload_cost(a, held[new], space[new])
            held_old, held_new = held[old] - a.held[v], held[new] + a.held[v]
            for p in range(a.cover.item_ptr[v], a.cover.item_ptr[v + 1]):
                c = a.cover.of_item[p]
                if users[c * k + old] == 1:
                    held_old -= a.cover_bytes[c]
                if users[c * k + new] == 0:
                    held_new += a.cover_bytes[c]
            space_old, space_new = space[old], max(space[new], a.workspace[v])
            if a.workspace[v] > 0.0 and a.workspace[v] >= space_old and reload_cost(a, held_old, space_old) > 0.0:
                space_old = _largest(a.workspace, label, old, v)
            cost_new += reload_cost(a, held_new, space_new) - before_new
            if cost_new == np.inf:
                continue
            cost_old += reload_cost(a, held_old, space_old) - before_old
        energy_old, energy_new = _power(cost_old / best, power), _power(cost_new / best, power)
        change = energy_old + energy_new - energy[old] - energy[new]
        if change > 0.0 and (change > 20.0 * temperature or np.random.random() >= np.exp(-change / temperature)):
            if u >= 0:
                _shift(a, pins, k, v, new, old)
            continue
        if u >= 0:
            _shift(a, pins, k, u, new, old)
            label[u] = old
        else:
            _shift(a, pins, k, v, old, new)
        if limited:
            held[old], held[new], space[new] = held_old, held_new, space_new
            if a.workspace[v] > 0.0 and a.workspace[v] >= space[old]:
                space[old] = _largest(a.workspace, label, old, v)
            for p in range(a.cover.item_ptr[v], a.cover.item_ptr[v + 1]):
                c = a.cover.of_item[p]
                users[c * k + old] -= 1
                users[c * k + new] += 1
        high_blocks += (cost_old >= best) - (costs[old] >= best) + (cost_new >= best) - (costs[new] >= best)
        label[v] = new
        costs[old], costs[new], energy[old], energy[new] = cost_old, cost_new, energy_old, energy_new
        if high_blocks == 0:
            top = costs.max()
            if top < best * (1 - 1e-12):
                kept[:] = label
                best = top
                high_blocks = _set_energy(costs, best, power, energy)
    # Costs are kept up by differences, and rounding adds up.
    return block_costs(a, kept, costs)
