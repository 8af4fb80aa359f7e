"""GETF: operators are given to groups of devices of like speed, then earliest task first inside the group."""

from __future__ import annotations

import math

import numpy as np

from partita.problems.makespan.greedy import Growing, earliest_start
from partita.problems.makespan.heuristics.base import NO_ROOM, Heuristic
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.priorities import upward_ranks


class Getf(Heuristic):
    """Source: Su et al., "Communication-Aware Scheduling of Precedence-Constrained Tasks on Related Machines" (2020).

    Devices whose speeds (inverse mean times) are within a factor of two form a group. Simplified: the paper assigns
    operators to groups by rounding a linear relaxation of the makespan; here each operator, longest first, goes to the
    group where its time plus the group's work per device is least. Then, as there, of all operators and devices of
    their groups the pair that can start first goes first.
    """

    name = "GETF"
    summary = "groups of like devices by balanced work, then who can start first; greedy groups, ignores congestion"

    def grow(self, instance: MakespanInstance) -> Growing | str:
        time = instance.arrays.time
        able = np.isfinite(time)
        usual = np.array([time[able[:, d], d].mean() if able[:, d].any() else math.inf for d in range(time.shape[1])])
        least = float(usual.min())
        level = [
            0 if mean <= 0 or least <= 0 else math.floor(math.log2(mean / least)) if math.isfinite(mean) else -1
            for mean in usual.tolist()
        ]
        groups = [[d for d in range(len(level)) if level[d] == g] for g in sorted(set(level))]
        work = [0.0] * len(groups)
        chosen = [0] * instance.count
        mean = [
            [float(time[v, ds].mean()) if able[v, ds].all() else math.inf for ds in groups]
            for v in range(instance.count)
        ]
        for v in sorted(range(instance.count), key=lambda v: -min(mean[v])):
            g = min(range(len(groups)), key=lambda g: (work[g] / len(groups[g]) + mean[v][g], g))
            chosen[v] = g
            work[g] += mean[v][g] if math.isfinite(mean[v][g]) else 0.0
        growing = Growing(instance, insertion=False)
        done = earliest_start(growing, upward_ranks(instance), lambda v: groups[chosen[v]])
        return growing if done else NO_ROOM
