"""Where replicas of each stage can be if none may take longer than a target, by consistency with their partners.

Source: own, in the manner of destructive lower bounds (Klein and Scholl, "Computing lower bounds by destructive
improvement", 1999): assume a mapping within a target T, draw conclusions, and if they contradict each other there is
none, so that T is a lower bound.

A *role* is a pair of stages that exchange bytes, or the ring of a stage. A link between devices d and e can play a role
if what it costs either end, with the fastest links for the other partners of that end, is within T. Then:

* a replica of s can be on d only if every role of s has links out of d for it, as many as it has partners in it (two in
  a ring of more than two), and what these cost at least is within T;
* its devices within k steps of links that can play roles are at least as many as the replicas within k steps of
  exchanges (a mapping within T turns paths of exchanges into paths of links, and different replicas are on different
  devices). On a mesh this is what the growth of balls says about corners;
* of a ring, all R devices are in one component of the links that can play it;
* what ``partita.problems.mapping.bounds.islands`` says of groups of devices;
* what ``partita.problems.mapping.bounds.patterns`` says of a replica with others around it.

By symmetry all replicas of a stage have the same domain. The domains shrink until nothing changes, and then a flow asks
whether the stages can share the devices. Bisection finds the largest target that is refuted.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Bools, Floats
from partita.engines.kernels.mapping.placing import covers
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.ground.rounding import up_to
from partita.problems.mapping.bounds.counted_machines import CountedBounds
from partita.problems.mapping.bounds.islands import SETS, Islands, components, groups_fit
from partita.problems.mapping.bounds.moving import least_moving, lowered
from partita.problems.mapping.bounds.neighbours import assignment_bound, best_loads
from partita.problems.mapping.bounds.patterns import ReplicaPatterns
from partita.problems.mapping.bounds.raising import Meanwhile, RaisingBound
from partita.problems.mapping.counted import CountedInstance
from partita.problems.mapping.instance import MappingInstance, listable
from partita.problems.mapping.problem import MappingProblem

#: Sweeps over all roles for one target at most.
_SWEEPS = 12
#: Width of the interval at which bisection ends, as a share of its upper end; and where only what is easy is asked.
_PRECISION, _COARSE = 1e-3, 0.1
#: Sets tried for one stage in one island there.
_EASY_SETS = 200


class Thresholds(RaisingBound):
    """See the module."""

    name = "thresholds"
    summary = "targets refuted by what links can carry: domains, growth of balls, whole groups in islands"
    argument = "the target leaves some stage without devices, by links, growth of balls, patterns or islands"

    def bound(self, problem: MappingProblem, monitor: Monitor) -> Bound:
        return super().bound(problem, monitor) if listable(problem) else self._counted(problem, monitor)

    def raised(self, instance: MappingInstance, low: float, beside: Meanwhile) -> float:
        known, width = low > assignment_bound(instance), _COARSE if beside.turn == "first" else _PRECISION
        return thresholds_bound(instance, low, beside.high(), beside.stopping, beside.report, width, known=known)

    def _counted(self, problem: MappingProblem, monitor: Monitor) -> Bound:
        instance = CountedInstance(problem)
        bounds = CountedBounds(instance)
        value = bounds.neighbours()
        if math.isfinite(value):
            high = float(instance.loads(np.arange(instance.count, dtype=np.int32)).max())
            value = bounds.thresholds(max(value, bounds.left()), high, lambda: monitor.stopping)
        return Bound(lowered(instance, value), self.name, self.scope, monitor.elapsed_s)


def thresholds_bound(
    instance: MappingInstance,
    low: float,
    high: float,
    stopping: Callable[[], bool],
    report: Callable[[float], object] = lambda value: None,
    width: float = _PRECISION,
    *,
    known: bool = False,
) -> float:
    """The largest refuted target between a bound and the objective of a mapping; ``report`` gets every better bound.

    The problem has devices enough; ``stopping`` is polled, and true ends it with what is known; ``width`` is that of
    the interval at which bisection ends, as a share of its upper end. Where the bound is ``known`` from something else
    that looks at islands, this ends if it does not refute a target a little above.
    """
    if stopping() or low >= high:
        return low
    domains = Domains(instance, _EASY_SETS if width == _COARSE else SETS)
    if known and not domains.refuted(min(low * (1 + 2 * _PRECISION), (low + high) / 2), stopping):
        return low
    while high - low > width * high and not stopping():
        target = (low + high) / 2
        if domains.refuted(target, stopping):
            low = target
            report(lowered(instance, low))
        else:
            high = target
    return low


class Domains:
    """A problem with devices enough, and what does not depend on the target."""

    def __init__(self, instance: MappingInstance, sets: int = SETS) -> None:
        self.instance = instance
        a = instance.arrays
        self.least = best_loads(instance)
        #: Two stages, the bytes of a role, what each takes at least beside it, and whether it counts in the sums.
        self.pairs = [
            (s, t, moved, _without(instance, s, moved), _without(instance, t, moved), True)
            for s in range(instance.stages)
            for t, moved in instance.exchanges(s)
            if s < t
        ]
        rings = [s for s in range(instance.stages) if a.ring[s] > 0]
        self.beside_ring = {s: _without(instance, s, None) for s in rings}
        # Where replicas are stages, links of a ring are pairs of these.
        self.rings = rings if instance.even else []
        turns = {} if instance.even else {tuple(sorted((s, int(a.after[s])))): float(a.ring[s]) for s in rings}
        beside = self.beside_ring
        self.pairs += [(s, t, moved, beside[s], beside[t], False) for (s, t), moved in turns.items()]
        self.balls = _balls(instance)
        self.islands = Islands(instance, sets)
        self.patterns = ReplicaPatterns(instance)
        self.same = np.eye(instance.devices, dtype=bool)

    def refuted(self, target: float, stopping: Callable[[], bool]) -> bool:
        """Whether no mapping is within a target; False also if it is told to stop."""
        instance, limit = self.instance, up_to(target)
        domain: Bools = self.least <= limit
        capacity = np.full(instance.stages, instance.replicas, dtype=np.int32)

        def shared() -> bool:
            return bool(covers(domain.astype(np.int32), capacity, instance.devices == instance.count))

        if not shared():
            return True
        if not self.islands.filter(domain, limit, stopping) or not shared():
            return True
        for _ in range(_SWEEPS):
            if stopping():
                return False
            before = int(domain.sum())
            union, slowest = self._sweep(domain, limit)
            if not shared():
                return True
            if int(domain.sum()) == before:
                if not groups_fit(instance, slowest):
                    return True
                self._grow(domain, union)
                if not shared():
                    return True
                if int(domain.sum()) < before:
                    continue
                if not self.patterns.filter(domain, limit, stopping) or not shared():
                    return True
                if int(domain.sum()) == before:
                    break
        return False

    def _sweep(self, domain: Bools, limit: float) -> tuple[Bools, dict[tuple[int, int], float]]:
        """Take devices out of domains, role by role; all links that can play some role, and the slowest for each."""
        instance, a = self.instance, self.instance.arrays
        inverse = a.inverse
        union = np.zeros_like(self.same)
        slowest: dict[tuple[int, int], float] = {}
        cost = a.time.copy()
        for s, t, moved, rest_s, rest_t, counts in self.pairs:
            price = moved * inverse
            able = (price + rest_s[:, None] <= limit) & (price.T + rest_t[None, :] <= limit)
            able &= domain[s][:, None] & domain[t][None, :] & ~self.same
            domain[s] &= able.any(axis=1)
            domain[t] &= able.any(axis=0)
            if counts:
                cost[s] += np.where(able, price, np.inf).min(axis=1)
                cost[t] += np.where(able.T, price, np.inf).min(axis=1)
            union |= able | able.T
            slowest[s, t] = float(np.where(able, np.minimum(inverse, inverse.T), 0.0).max())
        for s in self.rings:
            price = a.ring[s] * inverse + self.beside_ring[s][:, None]
            able = np.maximum(price, price.T) <= limit
            able &= domain[s][:, None] & domain[s][None, :] & ~self.same
            partners = instance.partners[s]
            domain[s] &= able.sum(axis=1) >= partners
            links = np.where(able, inverse, np.inf)
            cost[s] += a.ring[s] * np.partition(links, partners - 1, axis=1)[:, partners - 1]
            self._component(domain[s], able)
            union |= able
            slowest[s, s] = float(np.where(able, np.minimum(inverse, inverse.T), 0.0).max())
        domain &= cost <= limit
        links = np.sort(np.where(union, inverse, np.inf), axis=1)[:, : max(1, instance.devices - 1)]
        with np.errstate(invalid="ignore"):
            domain &= best_loads(instance, links) <= limit
        return union, slowest

    def _component(self, domain: Bools, able: Bools) -> None:
        """Take out of a stage's domain what is in no component of at least R devices."""
        if domain.sum() < self.instance.replicas:
            domain[:] = False
            return
        for members in components(able & domain[:, None] & domain[None, :]):
            if len(members) < self.instance.replicas:
                domain[members] = False

    def _grow(self, domain: Bools, union: Bools) -> None:
        """Compare balls of exchanges with balls of links."""
        used: Bools = np.any(domain, axis=0)
        step = (union & used[:, None] & used[None, :]).astype(np.float32)
        reach = self.same | (step > 0)
        for radius in range(1, self.balls.shape[1]):
            sizes = reach.sum(axis=1)
            domain &= self.balls[:, radius][:, None] <= sizes[None, :]
            if sizes[used].min(initial=self.instance.devices) >= self.instance.count:
                return
            reach = reach.astype(np.float32) @ (step + self.same) > 0


def _without(instance: MappingInstance, s: int, moved: float | None) -> Floats:
    """(D,) What a replica of a stage takes at least without one of its transfers; None is without its ring."""
    a = instance.arrays
    sizes, ring, partners = a.weight[a.ptr[s] : a.ptr[s + 1]], float(a.ring[s]), instance.partners[s]
    if moved is None:
        ring, partners = 0.0, 0
    else:
        sizes = np.delete(sizes, sizes.tolist().index(moved))
    least: Floats = a.time[s] + least_moving(sizes, ring, partners, instance.fastest)
    return least


def _balls(instance: MappingInstance) -> npt.NDArray[np.int64]:
    """(S, k) Replicas within so many exchanges of a replica of each stage, itself among them."""
    rows = []
    for s in range(instance.stages):
        seen = {(s, 0)}
        edge, sizes = [(s, 0)], [1]
        while edge:
            fresh: list[tuple[int, int]] = []
            for t, r in edge:
                for one in [*((u, r) for u, _ in instance.exchanges(t)), *instance.beside(t, r)]:
                    if one not in seen:
                        seen.add(one)
                        fresh.append(one)
            edge = fresh
            sizes.append(len(seen))
        rows.append(sizes)
    longest = max(map(len, rows))
    return np.array([row + [row[-1]] * (longest - len(row)) for row in rows], dtype=np.int64)
