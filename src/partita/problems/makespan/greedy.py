"""A schedule that grows operator by operator, as list scheduling heuristics see it: links without congestion."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable, Sequence

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats
from partita.problems.makespan.instance import MakespanInstance


class PartialSchedule:
    """What is placed so far.

    Classes that run together go where their first operator goes. Transfers take their time and nothing else, as in the
    papers of the heuristics; the list scheduler makes an honest schedule of the devices and the order in the end. With
    ``memory`` devices that are full are left out, and the whole class counts when its first operator is placed; with
    ``insertion`` operators may start in gaps between others.
    """

    def __init__(self, instance: MakespanInstance, *, memory: bool = True, insertion: bool = True) -> None:
        self.instance, self.memory, self.insertion = instance, memory, insertion
        n, a = instance.count, instance.arrays
        self.device = [-1] * n
        self.end = [0.0] * n
        self.order: list[int] = []
        self.left = [len(row) for row in instance.before]
        self.held = np.zeros(instance.devices)
        self.home = [-1] * (len(a.group.ptr) - 1)
        self.size, self.able = instance.sizes, instance.by_class(np.isfinite(a.time))
        self.busy: list[list[tuple[float, float]]] = [[] for _ in range(instance.devices)]
        #: Operators that wait for nothing more, since the last look.
        self.fresh = [v for v in range(n) if self.left[v] == 0]

    @property
    def done(self) -> bool:
        """Whether everything is placed."""
        return len(self.order) == self.instance.count

    def allowed(self, v: int) -> list[int]:
        """Devices that an operator may have now."""
        group = int(self.instance.arrays.group.of[v])
        if self.home[group] >= 0:
            return [self.home[group]]
        able = self.able[group]
        if self.memory:
            able = able & (self.held + self.size[group] <= self.instance.arrays.limit)
        return [int(d) for d in np.flatnonzero(able)]

    def arrivals(self, v: int) -> Floats:
        """When all that an operator reads is on each device."""
        at, cost = np.zeros(self.instance.devices), self.instance.arrays.cost
        for u, f in self.instance.before[v]:
            np.maximum(at, self.end[u] + cost[f, self.device[u]] if f >= 0 else self.end[u], out=at)
        return at

    def start(self, v: int, d: int, arrival: float) -> float:
        """The earliest start on a device of an operator whose input has arrived."""
        at, spans = arrival, self.busy[d]
        if not self.instance.problem.serial_operators or not spans:
            return at
        if not self.insertion:
            return max(at, spans[-1][1])
        length = float(self.instance.arrays.time[v, d])
        for k in range(bisect.bisect_left(spans, at, key=lambda span: span[1]), len(spans)):
            begun, ended = spans[k]
            if begun >= at + length:
                break
            at = max(at, ended)
        return at

    def place(self, v: int, allowed: Sequence[int]) -> None:
        """Run an operator as early as it can on the device, of those allowed, on which it ends first."""
        arrivals, time = self.arrivals(v), self.instance.arrays.time
        starts = [self.start(v, d, float(arrivals[d])) for d in allowed]
        ends = [begun + float(time[v, d]) for begun, d in zip(starts, allowed, strict=True)]
        chosen = ends.index(min(ends))
        d, group = allowed[chosen], int(self.instance.arrays.group.of[v])
        if self.home[group] < 0:
            self.home[group] = d
            self.held[d] += self.size[group]
        self.device[v], self.end[v] = d, ends[chosen]
        bisect.insort(self.busy[d], (starts[chosen], self.end[v]))
        self.order.append(v)
        for w, _ in self.instance.after[v]:
            self.left[w] -= 1
            if self.left[w] == 0:
                self.fresh.append(w)


def earliest_finish(
    found: PartialSchedule,
    priority: Sequence[float],
    narrowed: Callable[[int, list[int]], list[int]] = lambda v, allowed: allowed,
) -> bool:
    """Place everything: of what is ready the largest priority first, where it ends first; false if it fits nowhere.

    ``narrowed`` may leave some of the allowed devices of an operator out.
    """
    ready: list[tuple[float, int]] = []
    while not found.done:
        for v in found.fresh:
            heapq.heappush(ready, (-priority[v], v))
        found.fresh.clear()
        _, v = heapq.heappop(ready)
        allowed = found.allowed(v)
        if not allowed:
            return False
        found.place(v, narrowed(v, allowed))
    return True


def earliest_start(found: PartialSchedule, preferred: Callable[[int], Sequence[int]] = lambda v: ()) -> bool:
    """Place everything: of what is ready and has room the pair of operator and device that can start first.

    Of pairs that start at the same time the operator with the largest upward rank goes first. Devices that are
    preferred for an operator, asked when it is ready, are the only ones as long as they have room. False if something
    fits nowhere.
    """
    a = found.instance.arrays
    devices, serial = found.instance.devices, found.instance.problem.serial_operators
    rank = np.array(found.instance.upward_ranks)
    ready = np.zeros(0, dtype=np.int64)
    arrivals = np.zeros((0, devices))
    wanted: Bools = np.zeros((0, devices), dtype=np.bool_)
    free = np.zeros(devices)
    home = np.array(found.home)
    while not found.done:
        if found.fresh:
            new = np.array(found.fresh, dtype=np.int64)
            likes = np.zeros((len(new), devices), dtype=np.bool_)
            for k, v in enumerate(found.fresh):
                likes[k, list(preferred(v))] = True
            ready = np.concatenate([ready, new])
            arrivals = np.concatenate([arrivals, [found.arrivals(v) for v in found.fresh]])
            wanted = np.concatenate([wanted, likes])
            found.fresh.clear()
        group = a.group.of[ready]
        fits = found.able[group] & (found.held + found.size[group][:, None] <= a.limit)
        at_home = home[group][:, None]
        allowed: Bools = np.where(at_home >= 0, at_home == np.arange(devices), fits)
        inside = allowed & wanted
        allowed = np.where(inside.any(axis=1, keepdims=True), inside, allowed)
        starts = np.where(allowed, np.maximum(arrivals, free) if serial else arrivals, np.inf)
        first = starts.min(axis=1)
        if not np.isfinite(first.min()):
            return False
        tied = np.flatnonzero(first == first.min())
        at = int(tied[np.lexsort((ready[tied], -rank[ready[tied]]))[0]])
        v, d = int(ready[at]), int(starts[at].argmin())
        found.place(v, [d])
        free[d] = found.end[v]
        home[a.group.of[v]] = d
        ready, arrivals, wanted = np.delete(ready, at), np.delete(arrivals, at, axis=0), np.delete(wanted, at, axis=0)
    return True
