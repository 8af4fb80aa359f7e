"""Hyper-operators: neighbours merged bottom-up until a number of them is left.

Source: Liu, Liu, Bentian and Young, "Parmesan", §IV.B and equation 4. Nothing says that an optimum keeps
hyper-operators together: what is proven about them holds for them alone.
"""

from __future__ import annotations

import heapq

import numpy as np
import rustworkx

from partita.engines.kernels.arrays import Ints
from partita.problems.throughput.contraction.instance import Instance


def hyper_operators(instance: Instance, count: int, alpha: float) -> Ints:
    """Hyper-operator of every item, numbered 0, 1, …

    Among the pairs that an edge joins, whose merge leaves the graph without a cycle and fits into a device's memory,
    the one with the smallest time(u) + time(v) − α·transfer(u, v) is merged, again and again. Times are those of the
    first kind of devices that there is; a transfer is paid for each pair of maker and reader. The instance is
    ``directed``, so that nets know their maker. More than ``count`` are left where nothing can be merged.
    """
    return _Clusters(instance, alpha).merge(count)


class _Clusters:
    """Clusters of items: their graph, times, memory, and what each pair exchanges."""

    def __init__(self, instance: Instance, alpha: float) -> None:
        self.instance, self.alpha = instance, alpha
        kind = int(np.flatnonzero(instance.count > 0)[0])
        work = instance.work[:, kind]
        self.work = {v: float(t) if np.isfinite(t) else 0.0 for v, t in enumerate(work)}
        self.members = {v: [v] for v in range(instance.items)}
        self.limit = float(instance.memory[instance.count > 0].max())
        self.moved: dict[int, dict[int, float]] = {v: {} for v in range(instance.items)}
        for net in range(instance.nets):
            maker = int(instance.net_maker[net])
            for pin in instance.net.members(net).tolist():
                if pin != maker and maker >= 0:
                    cost = float(instance.net_cost[net, kind])
                    self.moved[maker][pin] = self.moved[maker].get(pin, 0.0) + cost
                    self.moved[pin][maker] = self.moved[pin].get(maker, 0.0) + cost
        self.graph: rustworkx.PyDiGraph[int, None] = rustworkx.PyDiGraph(multigraph=False)
        self.graph.add_nodes_from(list(range(instance.items)))
        self.graph.add_edges_from_no_data([(int(a), int(b)) for a, b in instance.graph.edges])

    def merge(self, count: int) -> Ints:
        """Merge until so many are left."""
        heap = [(self._cost(a, b), a, b) for a, b in self.graph.edge_list()]
        heapq.heapify(heap)
        left = len(self.members)
        while heap and left > count:
            _, a, b = heapq.heappop(heap)
            # A cluster that was merged has another number; a pair that failed fails until one of them is merged.
            if a not in self.members or b not in self.members or not self._fits(a, b):
                continue
            try:
                both = self.graph.contract_nodes([a, b], a, check_cycle=True)
            except rustworkx.DAGWouldCycle:
                continue
            self._join(a, b, both)
            left -= 1
            for other in self.graph.successor_indices(both):
                heapq.heappush(heap, (self._cost(both, other), both, other))
            for other in self.graph.predecessor_indices(both):
                heapq.heappush(heap, (self._cost(other, both), other, both))
        label = np.zeros(self.instance.items, dtype=np.int32)
        for number, members in enumerate(sorted(self.members.values(), key=min)):
            label[members] = number
        return label

    def _cost(self, a: int, b: int) -> float:
        return self.work[a] + self.work[b] - self.alpha * self.moved[a].get(b, 0.0)

    def _join(self, a: int, b: int, both: int) -> None:
        work, members = self.work.pop(a) + self.work.pop(b), self.members.pop(a) + self.members.pop(b)
        one, other = self.moved.pop(a), self.moved.pop(b)
        moved = {v: one.get(v, 0.0) + other.get(v, 0.0) for v in {*one, *other} - {a, b}}
        for v, size in moved.items():
            for old in (a, b):
                self.moved[v].pop(old, None)
            self.moved[v][both] = size
        self.work[both], self.members[both], self.moved[both] = work, members, moved

    def _fits(self, a: int, b: int) -> bool:
        """Whether both together fit into a device with one microbatch in flight."""
        return np.isinf(self.limit) or held_bytes(self.instance, self.members[a] + self.members[b]) <= self.limit


def held_bytes(instance: Instance, members: list[int], in_flight: int = 1) -> float:
    """Memory of some items on one device."""
    i = instance
    covers = {int(c) for v in members for c in i.cover.holding(v)}
    once = float(i.fixed[members].sum()) + sum(float(i.cover_fixed[c]) for c in covers)
    each = float(i.active[members].sum()) + sum(float(i.cover_active[c]) for c in covers)
    return once + float(i.workspace[members].max(initial=0.0)) + each * (1 if i.recompute else in_flight)
