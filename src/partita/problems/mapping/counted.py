"""A mapping problem whose machines are counted: what searches and bounds see where no link is listed.

Devices of one *sort* are in machines of one entry, and every stage takes as long on each of them. What is said of a
sort is said of all its devices, so nothing here grows with the square of the devices.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Floats, Ints
from partita.nouns.topology.counted import CountedLinks
from partita.problems.mapping.instance import MappingReplicas
from partita.problems.mapping.problem import MappingProblem


class CountedInstance(MappingReplicas):
    """Replicas, and sorts of devices instead of devices.

    The problem states ``machines``. Raises ``InputError`` if it does not say its devices.
    """

    def __init__(self, problem: MappingProblem) -> None:
        super().__init__(problem)
        self.links = CountedLinks(problem.machines)
        stated = [stage.times_s for stage in problem.stages if stage.times_s is not None]
        columns = [self.links.entry_of.astype(np.float64), *(np.array(times) for times in stated)]
        _, first, sort_of = np.unique(np.stack(columns, axis=1), axis=0, return_index=True, return_inverse=True)
        #: (D,) The sort of every device.
        self.sort_of: npt.NDArray[np.int64] = sort_of.reshape(-1)
        #: (K,) The entry of the problem's machines of every sort, and its devices.
        self.entries: list[int] = self.links.entry_of[first].tolist()
        self.room: list[int] = np.bincount(self.sort_of).tolist()
        times = [
            [stage.time_s] * len(first) if stage.times_s is None else [stage.times_s[d] for d in first]
            for stage in problem.stages
        ]
        #: (S, K) What a replica of each stage takes on each sort, without communication.
        self.time: Floats = np.array([times[s] for s in self.stage_of], dtype=np.float64)

    @cached_property
    def inside(self) -> Floats:
        """(K,) Seconds per byte between two devices of a machine of each sort."""
        rates = [self.problem.machines[entry].inside_bytes_per_s for entry in self.entries]
        return 1.0 / np.array(rates, dtype=np.float64)

    @cached_property
    def outside(self) -> Floats:
        """(K,) The same to another machine, at least."""
        rates = [self.problem.machines[entry].outside_bytes_per_s for entry in self.entries]
        return 1.0 / np.array(rates, dtype=np.float64)

    @cached_property
    def together(self) -> list[int]:
        """(K,) Devices of a machine of each sort."""
        return [self.problem.machines[entry].devices for entry in self.entries]

    def fastest(self, count: int) -> Floats:
        """(K, k) Seconds per byte of the fastest links of a device of each sort, ascending; so many if there are."""
        rows = []
        for entry in self.entries:
            mine = self.problem.machines[entry]
            links = [(1.0 / mine.inside_bytes_per_s, mine.devices - 1)]
            for number, other in enumerate(self.problem.machines):
                machines = other.count - (number == entry)
                slower = min(mine.outside_bytes_per_s, other.outside_bytes_per_s)
                links.append((1.0 / slower, machines * other.devices))
            row = [rate for rate, size in sorted(links) for _ in range(min(size, count))][:count]
            rows.append(row)
        return np.array(rows, dtype=np.float64).reshape(len(rows), -1)

    def loads(self, device: Ints) -> Floats:
        """(n,) What every replica takes on its device, in the order of their numbers: as ``evaluate`` says."""
        turn, number = np.arange(self.replicas), np.repeat(np.arange(self.stages), np.diff(self.ptr))
        mine = (number[:, None] * self.replicas + turn).reshape(-1)
        theirs = (self.other.astype(np.int64)[:, None] * self.replicas + turn).reshape(-1)
        moved = np.repeat(self.weight, self.replicas) / self.links[device[mine], device[theirs]]
        stage = np.repeat(np.arange(self.stages), self.replicas)
        slower = np.minimum(self.links[device, device[self.after]], self.links[device, device[self.before]])
        own = self.time[stage, self.sort_of[device]] + np.bincount(mine, moved, minlength=self.count)
        found: Floats = own + self.ring[stage] / slower
        return found
