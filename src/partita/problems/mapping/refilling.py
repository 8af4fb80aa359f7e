"""Mappings within a target from others, with columns that fill islands in another way.

Islands are devices with fast links among them (``partita.problems.mapping.bounds.parts``). What a mapping takes longest
for is often a small island between others: to use it better, several replicas have to go elsewhere at once.

Source: own; the annealing is that of ``partita.engines.kernels.mapping.filling``.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.arrays import Ints, Longs, Words
from partita.engines.kernels.mapping.filling import IslandArrays, fill_by_moves
from partita.problems.mapping.bounds.composing import placed
from partita.problems.mapping.bounds.parts import Island, partitions
from partita.problems.mapping.bounds.passages import Passages
from partita.problems.mapping.instance import MappingInstance

#: Islands at least and at most.
_FEWEST, _MOST = 3, 128


class Refilling:
    """The islands of a problem, where it has as many replicas of every stage, three or more."""

    def __init__(self, instance: MappingInstance) -> None:
        self.instance = instance

    @cached_property
    def islands(self) -> list[Island]:
        """Empty where there are none that could be filled in another way."""
        if not self.instance.even or self.instance.replicas < 3:
            return []
        found = next(partitions(self.instance), [])
        return found if _FEWEST <= len(found) <= _MOST else []

    @cached_property
    def arrays(self) -> IslandArrays:
        """What the kernel takes."""
        a = self.instance.arrays
        return IslandArrays(
            time=np.ascontiguousarray(np.array([island.times for island in self.islands]).T),
            pace=Passages(self.instance, self.islands).pace,
            room=np.array([len(island.members) for island in self.islands], dtype=np.int32),
            exact=self.instance.devices == self.instance.count,
            ptr=a.ptr,
            other=a.other,
            weight=a.weight,
            ring=a.ring,
        )

    def filled(self, device: Ints, target: float, cooling: Cooling, draws: Words, stop: Longs) -> Ints | None:
        """A mapping from one on, whose islands leave all replicas time within a target; None if none is found."""
        home = np.empty(self.instance.devices, dtype=np.int32)
        for number, island in enumerate(self.islands):
            home[island.members] = number
        where = np.ascontiguousarray(home[device].reshape(self.instance.stages, -1).T)
        if not fill_by_moves(self.arrays, where, target, cooling, draws, stop):
            return None
        return placed(self.instance, self.islands, where.T.astype(np.int64))
