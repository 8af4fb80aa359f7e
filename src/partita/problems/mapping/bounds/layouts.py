"""Where the stages of a column can be within a limit, island by island, and what its replicas take there.

Source: own. A *layout* is an island for every stage. What a column's exchanges take at least follows from it: the
fastest links between islands and, inside of one, its fastest links, each once. Where few layouts are within a limit,
they are listed stage by stage.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Floats
from partita.problems.mapping.bounds.moving import least_moving
from partita.problems.mapping.bounds.parts import Island
from partita.problems.mapping.bounds.passages import Passages
from partita.problems.mapping.instance import MappingInstance

#: Layouts of which programs are made, and those that are listed before all is known of them.
MOST_LAYOUTS, _LISTED = 2_500, 100_000
#: What sums in another order may differ by, as a share.
_SLACK = 1e-9


class Layouts(NamedTuple):
    """Columns by the islands of their stages: what a replica of each stage takes at least, (columns, S)."""

    islands: npt.NDArray[np.int64]
    away: Floats  #: Without its ring, which may lead anywhere.
    inside: Floats  #: With its ring on links inside of the island.


def layouts_within(instance: MappingInstance, islands: list[Island], limit: float, most: int) -> Layouts | None:
    """All layouts within a limit but for where rings lead; None if they are more than ``most``."""
    listed = _listed(instance, islands, limit)
    if listed is None:
        return None
    found = _loads(instance, islands, listed)
    within = np.ones(len(listed), dtype=bool)
    nearest = np.array([island.costs[0] for island in islands])
    for s in range(instance.stages):
        leaving = found.away[:, s] + instance.ring[s] * nearest[listed[:, s]]
        within &= np.minimum(found.inside[:, s], leaving) <= limit
    if int(within.sum()) > most:
        return None
    return Layouts(found.islands[within], found.away[within], found.inside[within])


def _listed(instance: MappingInstance, islands: list[Island], limit: float) -> npt.NDArray[np.int64] | None:
    """Islands by column and stage, as far as single links are within the limit; stages that exchange follow."""
    pace, count = Passages(instance, islands).pace, len(islands)
    least, sizes = pace.min(axis=1), np.array([len(island.members) for island in islands])
    times = np.array([island.times for island in islands]).T
    where, load = np.empty((1, 0), dtype=np.int64), np.empty((1, 0))
    order: list[int] = []
    while len(order) < instance.stages:
        left = [s for s in range(instance.stages) if s not in order]
        s = max(left, key=lambda s: sum(moved for t, moved in instance.exchanges_of[s] if t in order))
        here = np.tile(np.arange(count), len(where))
        where, load = np.repeat(where, count, axis=0), np.repeat(load, count, axis=0)
        own = times[s, here] + float(instance.ring[s]) * least[here]
        for t, moved in instance.exchanges_of[s]:
            if t in order:
                there = where[:, order.index(t)]
                own += moved * pace[here, there]
                load[:, order.index(t)] += moved * (pace[there, here] - least[there])
            else:
                own += moved * least[here]
        where, load = np.column_stack([where, here]), np.column_stack([load, own])
        within = (load <= limit * (1 + _SLACK)).all(axis=1)
        for i in np.flatnonzero(sizes < instance.stages):
            within &= (where == i).sum(axis=1) <= sizes[i]
        where, load = where[within], load[within]
        order.append(s)
        if len(where) > _LISTED:
            return None
    return where[:, np.argsort(order)]


def _loads(instance: MappingInstance, islands: list[Island], listed: npt.NDArray[np.int64]) -> Layouts:
    pace = Passages(instance, islands).pace

    @cache
    def staying(s: int, i: int, those: tuple[float, ...]) -> tuple[float, float]:
        """What partners inside take without the ring, and with it."""
        sizes, links, around = np.array(those), np.array([islands[i].inside]), instance.partners[s]
        alone = float(least_moving(sizes, 0.0, 0, links)[0])
        return alone, float(least_moving(sizes, float(instance.ring[s]), around, links)[0]) if around else alone

    found = Layouts(listed, np.empty(listed.shape), np.empty(listed.shape))
    for s, exchanges in enumerate(instance.exchanges_of):
        here = listed[:, s]
        for number, row in enumerate(listed.tolist()):
            those = tuple(moved for t, moved in exchanges if row[t] == row[s])
            found.away[number, s], found.inside[number, s] = staying(s, row[s], those)
        rest = np.array([island.times[s] for island in islands])[here]
        for t, moved in exchanges:
            rest += np.where(listed[:, t] == here, 0.0, moved * pace[here, listed[:, t]])
        found.away[:, s] += rest
        found.inside[:, s] += rest
    return found
