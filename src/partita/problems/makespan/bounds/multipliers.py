"""Weights on devices, links, chains and memory, with the least over all placements as far as a forest sees them."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
#: Weights of the work, the traffic and the chains at a start, and whether other chains than the longest get shares.
Start = tuple[float, float, float, bool]
STARTS: tuple[Start, ...] = (
    (0.8, 0.1, 0.1, False),
    (0.3, 0.5, 0.2, False),
    (0.1, 0.1, 0.8, False),
    (0.5, 0.1, 0.4, True),
)
#: How much of all these shares get in a step, by its length.
_TURN = 0.1


class Multipliers(InstanceBound):
    """See ``multiplier_bound`` for why it holds."""

    name = "multipliers"
    summary = "weighted work, traffic, chains and memory together, each transfer of a forest where it is cheapest"
    argument = (
        "a weighted mean of what devices, links and chains do, with prices on memory, is at least its least "
        "over all placements"
    )

    def value(self, instance: MakespanInstance, monitor: Monitor) -> float:
        return multiplier_bound(instance, monitor)


def multiplier_bound(
    instance: MakespanInstance,
    monitor: Monitor,
    *,
    able: Bools | None = None,
    enough: float = math.inf,
    starts: Sequence[Start] = STARTS,
) -> float:
    """What all of the machine must do, priced; of schedules with operators where they are ``able`` (n, D) to be.

    It ends above what is ``enough``, or climbs from all ``starts``.

    In a schedule of makespan C no device works, sends or receives for more than C (where these exclude each other), and
    no chain of operators and their transfers takes more than C. So any mean of these sums, with weights that add up to
    1, is at most C. What the operators of a device hold exceeds its memory by at most 0, so that, with prices µ >= 0,
    the mean plus Σ µ(d) · (held(d) − memory(d)) is at most C, too. That is a sum over operators, by their device, and
    over flows, by the devices of their ends; it stays at most C with its least over all placements in place of the
    schedule's, and with only some of the flows counted. Those of a forest are: each operator's dearest incoming one, or
    that of the longest chain; then the least is a dynamic program (``kernels.makespan.relaxations``). It is concave in
    weights and prices, and the placement found says how to change them: each step's value is a bound. With memory this
    says what cannot all be where it is fast. Where chains run beside each other, as those of two encoders do, several
    share the weight of one.
    """
    if instance.arrays.time.size == 0:
        return 0.0
    search, best = _Ascent(instance, instance.able if able is None else able), 0.0
    scale = max(simple_bound(instance), 1e-300)
    for start in starts:
        best = max(best, search.run(start, scale, monitor, enough))
        if best > enough:
            break
    return best


class _Ascent:
    """The forest, and what is limited."""

    def __init__(self, instance: MakespanInstance, able: Bools) -> None:
        self.instance, self.able = instance, able
        a, n, devices = instance.arrays, instance.count, instance.devices
        mean = a.cost.sum(axis=(1, 2))
        self.parent: Ints = np.full(n, -1, dtype=np.int32)
        self.flow: Ints = np.full(n, -1, dtype=np.int32)
        for u, v, f in instance.edges:
            if f >= 0 and (self.flow[v] < 0 or mean[f] > mean[self.flow[v]]):
                self.parent[v], self.flow[v] = u, f
        #: (2, n) Shares of chains through operators, and along flows from their parents.
        self.shares = np.zeros((2, n))
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
        self.shares[0, v] = 1.0
        while instance.after[v]:
            u = v
            v, f = max(instance.after[u], key=lambda entry: (through[entry[0]], entry[1] >= 0))
            self.parent[v], self.flow[v] = u, f
            self.shares[:, v] = 1.0

    def run(self, start: Start, scale: float, monitor: Monitor, enough: float) -> float:
        """Climb from one start; the best value met."""
        from partita.engines.kernels.makespan.relaxations import cheapest_placement

        instance, a, devices = self.instance, self.instance.arrays, self.instance.devices
        place = partial(cheapest_placement, a, self.able, instance.ordered, self.parent, self.flow)
        work, traffic, chain, moving = start
        seen = _Seen(instance, self.parent, self.flow) if moving else None
        shares, device = self.shares, np.zeros(instance.count, dtype=np.int32)
        weights: Floats = np.concatenate([np.repeat((work, traffic / 2, traffic / 2), devices) / devices, [chain]])
        weights = np.where(self.useful, weights, 0.0)
        weights /= weights.sum()
        price = np.zeros(devices)
        used, held = np.zeros(3 * devices + 1), np.zeros(devices)
        mean_used, mean_held = used, held
        best, failed, length = -math.inf, 0, _LONGEST
        top = weights, price, shares
        for step in range(_STEPS):
            if monitor.stopping or length < _SHORTEST or best > enough:
                break
            given = float(weights[-1]), weights[:-1].reshape(3, devices), price
            total = place(shares[0], shares[1], *given, device, used, held)
            paid = float(price[self.limited] @ instance.most_held[self.limited])
            found = total - paid - _ROUNDING * (total + paid)
            fresh = 1.0 if step == 0 else _FRESH
            mean_used, mean_held = mean_used + fresh * (used - mean_used), mean_held + fresh * (held - mean_held)
            if found > best:
                best, failed, top = found, 0, (weights, price, shares)
                length = min(_LONGEST, 1.2 * length)
            else:
                failed += 1
            if failed >= _PATIENCE:
                failed, length = 0, length / 1.5
            # From the best point, towards what placements take in the mean.
            value = max(float(top[0] @ mean_used), 1e-300)
            weights = top[0] * np.exp(np.clip((mean_used / value - 1.0) * length, -2.0, 2.0))
            weights /= weights.sum()
            if seen is not None:
                share = _TURN * length
                shares = (1.0 - share) * top[2] + share * seen.longest(device, fresh)
            # Prices are times by unit of memory; a step changes what all of a device's memory costs.
            excess = np.where(self.limited, (mean_held - a.limit) / self.unit, 0.0)
            price = np.maximum(0.0, top[1] + np.clip(excess, -1.0, 1.0) * length * scale / self.unit)
        return max(best, 0.0)


class _Seen:
    """What operators, and flows from their parents, take in the mean of the last placements."""

    def __init__(self, instance: MakespanInstance, parent: Ints, flow: Ints) -> None:
        self.instance, self.parent = instance, parent
        self.moved = np.flatnonzero((parent >= 0) & (flow >= 0))
        self.flow = flow[self.moved]
        self.mean = np.zeros((2, instance.count))

    def longest(self, device: Ints, fresh: float) -> Floats:
        """(2, n) A longest chain in that mean, with a ``fresh`` share of a placement (n,)."""
        from partita.engines.kernels.makespan.relaxations import longest_chain

        a, now, found = self.instance.arrays, np.zeros_like(self.mean), np.zeros_like(self.mean)
        now[0] = a.time[np.arange(len(device)), device]
        now[1, self.moved] = a.cost[self.flow, device[self.parent[self.moved]], device[self.moved]]
        self.mean += fresh * (now - self.mean)
        longest_chain(a, self.instance.ordered, self.parent, self.mean[0], self.mean[1], found[0], found[1])
        return found
