"""Weights on devices, links, one chain and memory, with the least over all placements as far as a forest sees them."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Ints
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import SUMMED
from partita.problems.makespan.bounds.simple import InstanceBound, simple_bound
from partita.problems.makespan.instance import MakespanInstance

#: Steps of the ascent from each start, and what rounding may add, of all that is summed.
_STEPS, _ROUNDING = 1000, 10 * SUMMED
#: Steps without a better value after which they are shortened, how long they are, and the share of the last placement
#: in the mean of those before.
_PATIENCE, _LONGEST, _SHORTEST, _FRESH = 10, 2.0, 1e-4, 0.1
#: Weights of the work, the traffic and the chain at each start.
_STARTS = ((0.8, 0.1, 0.1), (0.3, 0.5, 0.2), (0.1, 0.1, 0.8))


class Multipliers(InstanceBound):
    """See ``multiplier_bound`` for why it holds."""

    name = "multipliers"
    summary = "weighted work, traffic, a chain and memory together, each transfer of a forest where it is cheapest"
    argument = (
        "a weighted mean of what devices, links and one chain do, with prices on memory, is at least its least "
        "over all placements"
    )

    def value(self, instance: MakespanInstance, monitor: Monitor) -> float:
        return multiplier_bound(instance, monitor)


def multiplier_bound(instance: MakespanInstance, monitor: Monitor) -> float:
    """What all of the machine must do, priced.

    In a schedule of makespan C no device works, sends or receives for more than C (where these exclude each other), and
    no chain of operators and their transfers takes more than C. So any mean of these sums, with weights that add up to
    1, is at most C. What the operators of a device hold exceeds its memory by at most 0, so that, with prices µ >= 0,
    the mean plus Σ µ(d) · (held(d) − memory(d)) is at most C, too. That is a sum over operators, by their device, and
    over flows, by the devices of their ends; it stays at most C with its least over all placements in place of the
    schedule's, and with only some of the flows counted. Those of a forest are: each operator's dearest incoming one, or
    that of the chain; then the least is a dynamic program (``kernels.makespan.relaxations``). It is concave in
    weights and prices, and the placement found says how to change them: each step's value is a bound. With memory this
    says what cannot all be where it is fast.
    """
    if instance.arrays.time.size == 0:
        return 0.0
    search = _Ascent(instance)
    scale = max(simple_bound(instance), 1e-300)
    return max(search.run(start, scale, monitor) for start in _STARTS)


class _Ascent:
    """The forest, and what is limited."""

    def __init__(self, instance: MakespanInstance) -> None:
        self.instance = instance
        a, n, devices = instance.arrays, instance.count, instance.devices
        mean = a.cost.sum(axis=(1, 2))
        self.parent: Ints = np.full(n, -1, dtype=np.int32)
        self.flow: Ints = np.full(n, -1, dtype=np.int32)
        for u, v, f in instance.edges:
            if f >= 0 and (self.flow[v] < 0 or mean[f] > mean[self.flow[v]]):
                self.parent[v], self.flow[v] = u, f
        self.on_path: Bools = np.zeros(n, dtype=np.bool_)
        self._add_path()
        self.limited = np.isfinite(a.limit)
        #: What a price of 1 on a device says of its memory: its share of the limit, or all where there is no room.
        self.unit = np.where(self.limited & (a.limit > 0), a.limit, 1.0)
        self.useful = np.concatenate([np.repeat(a.serial, devices), [True]])

    def _add_path(self) -> None:
        """The longest chain becomes a path of the forest."""
        instance, through = self.instance, (self.instance.head + self.instance.arrays.tail).min(axis=1)
        v = max((v for v in instance.order if not instance.before[v]), key=lambda v: through[v])
        self.parent[v] = self.flow[v] = -1
        self.on_path[v] = True
        while instance.after[v]:
            u = v
            v, f = max(instance.after[u], key=lambda entry: (through[entry[0]], entry[1] >= 0))
            self.parent[v], self.flow[v] = u, f
            self.on_path[v] = True

    def run(self, start: tuple[float, float, float], scale: float, monitor: Monitor) -> float:
        """Climb from one start; the best value met."""
        from partita.engines.kernels.makespan.relaxations import cheapest_placement

        instance, a, devices = self.instance, self.instance.arrays, self.instance.devices
        place = partial(cheapest_placement, a, instance.able, instance.ordered, self.parent, self.flow, self.on_path)
        work, traffic, chain = start
        weights: Floats = np.concatenate([np.repeat((work, traffic / 2, traffic / 2), devices) / devices, [chain]])
        weights = np.where(self.useful, weights, 0.0)
        weights /= weights.sum()
        price = np.zeros(devices)
        used, held = np.zeros(3 * devices + 1), np.zeros(devices)
        mean_used, mean_held = used, held
        best, failed, length = -math.inf, 0, _LONGEST
        top = weights, price
        for step in range(_STEPS):
            if monitor.stopping or length < _SHORTEST:
                break
            total = place(float(weights[-1]), weights[:-1].reshape(3, devices), price, used, held)
            paid = float(price[self.limited] @ instance.most_held[self.limited])
            found = total - paid - _ROUNDING * (total + paid)
            fresh = 1.0 if step == 0 else _FRESH
            mean_used, mean_held = mean_used + fresh * (used - mean_used), mean_held + fresh * (held - mean_held)
            if found > best:
                best, failed, top = found, 0, (weights, price)
                length = min(_LONGEST, 1.2 * length)
            else:
                failed += 1
            if failed >= _PATIENCE:
                failed, length = 0, length / 1.5
            # From the best point, towards what placements take in the mean.
            value = max(float(top[0] @ mean_used), 1e-300)
            weights = top[0] * np.exp(np.clip((mean_used / value - 1.0) * length, -2.0, 2.0))
            weights /= weights.sum()
            # Prices are times by unit of memory; a step changes what all of a device's memory costs.
            excess = np.where(self.limited, (mean_held - a.limit) / self.unit, 0.0)
            price = np.maximum(0.0, top[1] + np.clip(excess, -1.0, 1.0) * length * scale / self.unit)
        return max(best, 0.0)
