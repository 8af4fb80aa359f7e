"""Whether stages find devices for all their replicas: a flow from stages to devices."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.engines.kernels.compiled import compiled


@compiled
def covers(allowed: Ints, capacity: Ints, every_device: bool) -> bool:
    """Whether each stage gets as many devices of its own as ``capacity`` (S,) says: an augmenting path for each.

    ``allowed`` (S, D) is 1 where a replica of the stage may be; with ``every_device`` there are exactly as many devices
    as replicas.
    """
    stages, devices = allowed.shape
    holder = np.full(devices, -1, dtype=np.int32)
    if every_device:
        for d in range(devices):
            lonely = True
            for s in range(stages):
                if allowed[s, d] != 0:
                    lonely = False
                    break
            if lonely:
                return False
    seen = np.full(devices, -1, dtype=np.int32)
    queue = np.empty(devices, dtype=np.int32)
    parent = np.empty(devices, dtype=np.int32)
    expanded = np.full(stages, -1, dtype=np.int32)
    stamp = 0
    for s in range(stages):
        for _ in range(capacity[s]):
            head, tail = 0, 0
            end = -1
            expanded[s] = stamp
            for d in range(devices):
                if allowed[s, d] != 0:
                    seen[d] = stamp
                    parent[d] = -1
                    queue[tail] = d
                    tail += 1
            while head < tail:
                d = queue[head]
                head += 1
                if holder[d] < 0:
                    end = d
                    break
                t = holder[d]
                if expanded[t] == stamp:
                    continue
                expanded[t] = stamp
                for e in range(devices):
                    if allowed[t, e] != 0 and seen[e] != stamp:
                        seen[e] = stamp
                        parent[e] = d
                        queue[tail] = e
                        tail += 1
            if end < 0:
                return False
            # Along the path, everyone moves one on: the stage of the device before takes this one.
            while parent[end] >= 0:
                holder[end] = holder[parent[end]]
                end = parent[end]
            holder[end] = s
            stamp += 1
    return True
