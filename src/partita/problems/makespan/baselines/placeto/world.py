"""What a learned placement decides about, sees and is worth."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Floats, Ints
from partita.engines.kernels.makespan.lists import schedule
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.coarse import OperatorGroups
from partita.problems.makespan.instance import MakespanInstance


class World:
    """Placements of groups, judged by the list scheduler with operators by their upward ranks."""

    def __init__(self, instance: MakespanInstance, groups: OperatorGroups) -> None:
        self.instance, self.groups = instance, groups
        self.able = np.isfinite(groups.time)  #: (G, D) Where a group can run.
        #: The smallest makespan that was met, and the device of every operator there.
        self.value, self.best = math.inf, np.full(instance.count, -1, dtype=np.int32)
        self._room = instance.room()

    def meet(self, device: Ints, monitor: Monitor) -> float:
        """The makespan of a placement (G,), longer by the share by which devices are overfull.

        The best placement that fits is kept and reported.
        """
        limit = self.instance.arrays.limit
        placed = device[self.groups.group]
        value = float(schedule(self.instance.arrays, placed, self.instance.by_rank, True, math.inf, self._room))
        over = np.maximum(np.bincount(device, self.groups.memory, len(limit)) - limit, 0.0)
        if over.any():
            return value * (1.0 + float((over / np.maximum(limit, 1e-300))[over > 0].sum()))
        if value < self.value:
            self.value, self.best = value, placed
            monitor.report(objective=value)
        return value

    def allowed(self, device: Ints, group: int) -> npt.NDArray[np.bool_]:
        """(B, D) Where a group has room beside those before it, in each of B placements (B, G) of all groups.

        Those behind it have their turn yet. Where there is no room left, wherever it can run.
        """
        size, limit = self.groups.memory, self.instance.arrays.limit
        held = np.array([np.bincount(row[:group], size[:group], len(limit)) for row in device])
        fits: npt.NDArray[np.bool_] = self.able[group] & (held + size[group] <= limit)
        return np.where(fits.any(axis=1, keepdims=True), fits, self.able[group])

    def features(self) -> Floats:
        """(G, D + 2) Times on the devices, mean time to hand results to other groups, memory; all about 1."""
        moved, groups = self.instance.mean_transfers, self.groups
        leaves = np.zeros(groups.count)
        for u, v, f in self.instance.edges:
            if f >= 0 and groups.group[u] != groups.group[v]:
                leaves[groups.group[u]] += moved[f]
        time = np.where(self.able, groups.time, 0.0)
        parts = (time, leaves[:, None], groups.memory[:, None])
        return np.concatenate([part / max(float(part.mean()), 1e-300) for part in parts], axis=1)

    def reads(self) -> Floats:
        """(G, G) 1 where the group of the row reads what another, of the column, makes."""
        found = np.zeros((self.groups.count, self.groups.count))
        for u, v, _ in self.instance.edges:
            g, h = int(self.groups.group[u]), int(self.groups.group[v])
            found[h, g] = float(g != h)
        return found
