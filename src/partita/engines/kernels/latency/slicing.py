"""Cuts an order of operators into pieces and operators on the CPU: least time together, or the least largest one."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints
from partita.engines.kernels.compiled import compiled
from partita.engines.kernels.latency.arrays import LatencyArrays
from partita.engines.kernels.rows import predecessors, row_of, successors


@compiled
def slice_order(a: LatencyArrays, order: Ints, group_ptr: Ints, cpu: Floats, most: int, largest: bool) -> Ints:
    """By group, the number of its piece from 0, or −1 for the CPU: the smallest sum of times within the memory limit.

    With ``largest`` the smallest largest time; all are on the CPU where no cut has a finite one.

    Group i is ``order[group_ptr[i]:group_ptr[i + 1]]`` and is not cut; ``cpu`` (groups,) is its time on the CPU;
    ``most`` pieces at most. f[j][r] is the least time for the first r groups with j pieces, and a piece from l to r is
    grown from its start: it pays for outside producers when they are first read, and for an output until its last
    reader is inside.
    """
    groups, n = cpu.shape[0], order.shape[0]
    group_of = np.zeros(n, np.int32)
    for g in range(groups):
        for w in row_of(group_ptr, order, g):
            group_of[w] = g
    last = np.zeros(n, np.int32)
    for v in range(n):
        last[v] = -1
        for w in successors(a.graph, v):
            last[v] = max(last[v], group_of[w])
    cost = np.full((most + 1, groups + 1), np.inf)
    choice = np.full((most + 1, groups + 1), -2, np.int32)
    cost[0, 0] = 0.0
    seen = np.full(n, -1, np.int32)
    for left in range(groups):
        for j in range(most + 1):
            reached = max(cost[j, left], cpu[left]) if largest else cost[j, left] + cpu[left]
            if reached < cost[j, left + 1]:
                cost[j, left + 1] = reached
                choice[j, left + 1] = -1
        work, out, into, held = 0.0, 0.0, 0.0, 0.0
        for right in range(left, groups):
            for v in row_of(group_ptr, order, right):
                work += a.acc[v]
                held += a.mem[v]
                if last[v] > right:
                    out += a.comm[v]
                for u in predecessors(a.graph, v):
                    if group_of[u] < left:
                        if seen[u] != left:
                            seen[u] = left
                            into += a.comm[u]
                    elif last[u] == right and group_of[u] < right and seen[u] != left + groups:
                        seen[u] = left + groups
                        out -= a.comm[u]
            if held > a.limit[0] or work == np.inf:
                break
            time = into + work + out
            for j in range(most):
                reached = max(cost[j, left], time) if largest else cost[j, left] + time
                if reached < cost[j + 1, right + 1]:
                    cost[j + 1, right + 1] = reached
                    choice[j + 1, right + 1] = left
    j = 0
    for i in range(most + 1):
        if cost[i, groups] < cost[j, groups]:
            j = i
    result = np.full(groups, -1, np.int32)
    at = groups
    while at > 0:
        left = choice[j, at]
        if left < 0:
            at -= 1
            continue
        j -= 1
        for g in range(left, at):
            result[g] = j
        at = left
    return result
