"""A schedule that grows operator by operator, as list scheduling heuristics see it: links without congestion."""

from __future__ import annotations

import bisect

import numpy as np

from partita.problems.makespan.instance import MakespanInstance


class Growing:
    """What is placed so far.

    Classes that run together go where their first operator goes. Transfers take their time and nothing else, as in the
    papers of the heuristics; the list scheduler makes an honest schedule of the devices and the order in the end.

    Parameters
    ----------
    instance
        The problem.
    memory
        Whether devices that are full are left out; the whole class counts when its first operator is placed.
    insertion
        Whether operators may start in gaps between others.
    """

    def __init__(self, instance: MakespanInstance, *, memory: bool = True, insertion: bool = True) -> None:
        self.instance, self.memory, self.insertion = instance, memory, insertion
        n = instance.count
        self.device = [-1] * n
        self.end = [0.0] * n
        self.order: list[int] = []
        self.left = [len(row) for row in instance.before]
        self.held = [0.0] * instance.devices
        self.home = [-1] * (len(instance.arrays.group_ptr) - 1)
        self.size = [0.0] * len(self.home)
        for v in range(n):
            self.size[instance.arrays.group[v]] += float(instance.arrays.memory[v])
        self.busy: list[list[tuple[float, float]]] = [[] for _ in range(instance.devices)]

    @property
    def done(self) -> bool:
        """Whether everything is placed."""
        return len(self.order) == self.instance.count

    def ready(self) -> list[int]:
        """Operators that wait for nothing more, by number."""
        return [v for v in range(self.instance.count) if self.device[v] < 0 and self.left[v] == 0]

    def allowed(self, v: int) -> list[int]:
        """Devices that an operator may have now."""
        a, group = self.instance.arrays, int(self.instance.arrays.group[v])
        if self.home[group] >= 0:
            return [self.home[group]]
        members = a.group_ops[a.group_ptr[group] : a.group_ptr[group + 1]]
        able = [bool(np.isfinite(a.time[members, d]).all()) for d in range(self.instance.devices)]
        return [
            d
            for d in range(self.instance.devices)
            if able[d] and (not self.memory or self.held[d] + self.size[group] <= a.limit[d])
        ]

    def arrival(self, v: int, d: int) -> float:
        """When all that an operator reads is on a device."""
        at = 0.0
        for u, f in self.instance.before[v]:
            moved = float(self.instance.arrays.cost[f, self.device[u], d]) if f >= 0 else 0.0
            at = max(at, self.end[u] + moved)
        return at

    def start(self, v: int, d: int) -> float:
        """The earliest start of an operator on a device."""
        at, length = self.arrival(v, d), float(self.instance.arrays.time[v, d])
        spans = self.busy[d]
        if not self.instance.problem.serial_operators or not spans:
            return at
        if not self.insertion:
            return max(at, spans[-1][1])
        for begun, ended in spans[bisect.bisect_left(spans, at, key=lambda span: span[1]) :]:
            if begun >= at + length:
                break
            at = max(at, ended)
        return at

    def finish(self, v: int, d: int) -> float:
        """The earliest end of an operator on a device."""
        return self.start(v, d) + float(self.instance.arrays.time[v, d])

    def place(self, v: int, d: int) -> None:
        """Run an operator on a device as early as it can."""
        begun = self.start(v, d)
        group = int(self.instance.arrays.group[v])
        if self.home[group] < 0:
            self.home[group] = d
            self.held[d] += self.size[group]
        self.device[v], self.end[v] = d, begun + float(self.instance.arrays.time[v, d])
        bisect.insort(self.busy[d], (begun, self.end[v]))
        self.order.append(v)
        for w, _ in self.instance.after[v]:
            self.left[w] -= 1


def earliest_finish(growing: Growing, priority: list[float]) -> bool:
    """Place everything: of what is ready the largest priority first, where it ends first; false if it fits nowhere."""
    while not growing.done:
        v = max(growing.ready(), key=lambda v: priority[v])
        allowed = growing.allowed(v)
        if not allowed:
            return False
        growing.place(v, min(allowed, key=lambda d: growing.finish(v, d)))
    return True
