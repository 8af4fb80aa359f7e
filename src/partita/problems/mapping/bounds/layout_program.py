"""Whole numbers of columns by the islands of all their stages.

Source: own; see ``partita.problems.mapping.bounds.columns``. Against parts, a column is seen as a whole here: how far
its stages are apart all at once, and how far that lets each of its rings reach. That takes layouts to be few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from partita.problems.mapping.bounds.layouts import Layouts
from partita.problems.mapping.bounds.parts import Island
from partita.problems.mapping.bounds.passages import Passages
from partita.problems.mapping.bounds.shares import Need, Shares, Terms
from partita.problems.mapping.instance import MappingInstance


class LayoutProgram(Shares):
    """How many columns have each layout."""

    def __init__(self, instance: MappingInstance, islands: list[Island], limit: float, layouts: Layouts) -> None:
        super().__init__(instance, islands, limit)
        self.layouts, self.pace = layouts, Passages(instance, islands).pace
        replicas, model = instance.replicas, self.model
        rooms = [len(island.members) for island in islands]
        self.number = [
            model.add_count(min(replicas, *(rooms[i] // row.count(i) for i in set(row))))
            for row in layouts.islands.tolist()
        ]
        model.add_row([(n, 1.0) for n in self.number], replicas, replicas)
        every = instance.devices == instance.count
        for i, room in enumerate(rooms):
            here = layouts.islands == i
            terms = list(zip(self.number, here.sum(axis=1).astype(float).tolist(), strict=True))
            model.add_row(terms, room if every else -math.inf, room)
            for s in range(instance.stages):
                self.held[s][i] = [(self.number[k], 1.0) for k in np.flatnonzero(here[:, s])]
        for one in Passages(instance, islands).blocked(limit):
            self.one_side(one)
        for s in range(instance.stages):
            if instance.partners[s]:
                self.flow_of_ring(s, list(self._in_ring(s)))

    def columns_in(self, stages: tuple[int, int], islands: Sequence[int]) -> Terms:
        inside = np.isin(self.layouts.islands[:, list(stages)], islands).all(axis=1)
        return [(self.number[x], 1.0) for x in np.flatnonzero(inside)]

    def _in_ring(self, s: int) -> Iterator[Need]:
        """By island, and by those that are as near: columns whose ring has to be within these."""
        where, ring = self.layouts.islands[:, s], float(self.instance.ring[s])
        for i in range(len(self.islands)):
            mine = np.flatnonzero(where == i)
            others = [j for j in range(len(self.islands)) if j != i]
            steps = np.unique(self.pace[i, others])
            # How many of the steps a ring may take, on which it may stay inside, too.
            far = np.searchsorted(steps * ring, self.limit - self.layouts.away[mine, s], side="right")
            for k in range(len(steps)):
                terms = [(self.number[x], 1.0) for x in mine[far <= k]]
                if terms:
                    yield i, [i, *(j for j in others if self.pace[i, j] < steps[k])], terms
