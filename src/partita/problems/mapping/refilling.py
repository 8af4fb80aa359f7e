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
from partita.problems.mapping.bounds.repeating import columns_that_fill
from partita.problems.mapping.instance import MappingInstance

#: Islands at least and at most.
_FEWEST, _MOST = 3, 128
#: How far targets of groups of columns are below each other, as a share; and tries of one in vain after which it ends.
_LOWER, _MISSED = 0.02, 3


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

    @cached_property
    def group(self) -> int:
        """Fewest columns, three or more, that fill whole islands if all are as large; 0 where all columns are."""
        return columns_that_fill(self.instance, self.islands)

    def repeated(self, target: float, each: Cooling, draws: Words, stop: Longs) -> Ints | None:
        """A mapping in which columns fill islands group by group, all groups in one way; None if none is found.

        There is a ``group``. Targets fall from one on until some tries find none, with a cooling of ``each``.
        """
        a, stages = self.arrays, self.instance.stages
        count = self.group * stages // int(a.room[0])
        mine = a._replace(
            time=np.ascontiguousarray(a.time[:, :count]),
            pace=np.ascontiguousarray(a.pace[:count, :count]),
            room=a.room[:count].copy(),
            exact=True,
        )
        found, where = None, np.arange(self.group * stages, dtype=np.int32).reshape(-1, stages) // a.room[0]
        missed = 0
        while missed < _MISSED and stop[0] == 0:
            if fill_by_moves(mine, where, target, each, draws, stop):
                found, target, missed = where.copy(), target * (1 - _LOWER), 0
            else:
                missed += 1
        if found is None:
            return None
        groups = self.instance.replicas // self.group
        islands = np.concatenate([found + count * g for g in range(groups)])
        return placed(self.instance, self.islands, islands.T.astype(np.int64))
