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
    kind = int(np.flatnonzero(instance.count > 0)[0])
    limit = float(instance.memory[instance.count > 0].max())
    work = {v: t if np.isfinite(t) else 0.0 for v, t in enumerate(instance.work[:, kind].tolist())}
    members = {v: [v] for v in range(instance.items)}
    moved: dict[int, dict[int, float]] = {v: {} for v in range(instance.items)}
    for net, maker in enumerate(instance.net_maker.tolist()):
        cost = float(instance.net_cost[net, kind])
        for pin in instance.net.members(net).tolist():
            if pin != maker and maker >= 0:
                moved[maker][pin] = moved[maker].get(pin, 0.0) + cost
                moved[pin][maker] = moved[pin].get(maker, 0.0) + cost
    graph: rustworkx.PyDiGraph[int, None] = rustworkx.PyDiGraph(multigraph=False)
    graph.add_nodes_from(list(range(instance.items)))
    graph.add_edges_from_no_data([(int(a), int(b)) for a, b in instance.graph.edges])

    def entry(a: int, b: int) -> tuple[float, int, int]:
        return work[a] + work[b] - alpha * moved[a].get(b, 0.0), a, b

    heap = [entry(a, b) for a, b in graph.edge_list()]
    heapq.heapify(heap)
    while heap and len(members) > count:
        _, a, b = heapq.heappop(heap)
        # A cluster that was merged has another number; a pair that failed fails until one of them is merged.
        if a not in members or b not in members:
            continue
        # Whether both together fit into a device with one microbatch in flight.
        if not np.isinf(limit) and held_bytes(instance, members[a] + members[b]) > limit:
            continue
        try:
            both = graph.contract_nodes([a, b], a, check_cycle=True)
        except rustworkx.DAGWouldCycle:
            continue
        one, other = moved.pop(a), moved.pop(b)
        work[both], members[both] = work.pop(a) + work.pop(b), members.pop(a) + members.pop(b)
        moved[both] = {v: one.get(v, 0.0) + other.get(v, 0.0) for v in {*one, *other} - {a, b}}
        for v, size in moved[both].items():
            moved[v].pop(a, None)
            moved[v].pop(b, None)
            moved[v][both] = size
        for v in graph.successor_indices(both):
            heapq.heappush(heap, entry(both, v))
        for v in graph.predecessor_indices(both):
            heapq.heappush(heap, entry(v, both))
    label = np.zeros(instance.items, dtype=np.int32)
    for number, row in enumerate(sorted(members.values(), key=min)):
        label[row] = number
    return label


def held_bytes(instance: Instance, members: list[int], in_flight: int = 1) -> float:
    """Memory of some items on one device."""
    i = instance
    covers = {int(c) for v in members for c in i.cover.holding(v)}
    once = float(i.fixed[members].sum()) + sum(float(i.cover_fixed[c]) for c in covers)
    each = float(i.active[members].sum()) + sum(float(i.cover_active[c]) for c in covers)
    return once + float(i.workspace[members].max(initial=0.0)) + each * (1 if i.recompute else in_flight)
