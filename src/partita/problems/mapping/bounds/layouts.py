"""Where the stages of a column can be within a limit, island by island, and what its replicas take there.

Source: own. A *layout* is an island for every stage. What a column's exchanges take at least follows from it: the
fastest links between islands and, inside of one, its fastest links, each once. Where few layouts are within a limit,
they are listed stage by stage.
"""

from __future__ import annotations

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
#: Exchanges of a stage that are looked at as one number, beside the number of a case.
_BITS = 32
#: What sums in another order may differ by, as a share.
SLACK = 1e-9


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
    pace = Passages(instance, islands).pace
    least, sizes = pace.min(axis=1), np.array([len(island.members) for island in islands])
    times = np.array([island.times for island in islands]).T
    where, load = np.empty((1, 0), dtype=np.int64), np.empty((1, 0))
    most = limit * (1 + SLACK)
    order: list[int] = []
    while len(order) < instance.stages:
        left = [s for s in range(instance.stages) if s not in order]
        s = max(left, key=lambda s: sum(moved for t, moved in instance.exchanges_of[s] if t in order))
        # [column, island of the stage]; what a partner takes more is added where that is within the limit.
        own = np.tile(times[s] + float(instance.ring[s]) * least, (len(where), 1))
        more: dict[int, Floats] = {}
        for t, moved in instance.exchanges_of[s]:
            if t in order:
                there = where[:, order.index(t)]
                own += moved * pace[:, there].T
                farther = moved * (pace[there] - least[there][:, None])
                more[order.index(t)] = more[order.index(t)] + farther if order.index(t) in more else farther
            else:
                own += moved * least
        within = own <= most
        for j, farther in more.items():
            within &= load[:, j][:, None] + farther <= most
        for i in np.flatnonzero(sizes < instance.stages):
            within[:, i] &= (where == i).sum(axis=1) < sizes[i]
        rows, here = np.nonzero(within)
        where, load = np.column_stack([where[rows], here]), np.column_stack([load[rows], own[rows, here]])
        for j, farther in more.items():
            load[:, j] += farther[rows, here]
        order.append(s)
        if len(where) > _LISTED:
            return None
    return where[:, np.argsort(order)]


def _loads(instance: MappingInstance, islands: list[Island], listed: npt.NDArray[np.int64]) -> Layouts:
    pace = Passages(instance, islands).pace
    found = Layouts(listed, np.empty(listed.shape), np.empty(listed.shape))
    for s, exchanges in enumerate(instance.exchanges_of):
        here, around = listed[:, s], instance.partners[s]
        rest = np.array([island.times[s] for island in islands])[here]
        beside = np.zeros((len(listed), len(exchanges)), dtype=bool)
        for number, (t, moved) in enumerate(exchanges):
            beside[:, number] = listed[:, t] == here
            rest += np.where(beside[:, number], 0.0, moved * pace[here, listed[:, t]])
        # What partners inside take without the ring, and with it: few islands have few sets of these.
        case, beneath = here, 1 << np.arange(_BITS)
        for k in range(0, len(exchanges), _BITS):
            some = beside[:, k : k + _BITS]
            case = np.unique(case << _BITS | some @ beneath[: some.shape[1]], return_inverse=True)[1]
        first, case = np.unique(case, return_index=True, return_inverse=True)[1:]
        staying = np.empty((len(first), 2))
        for number, row in enumerate(first):
            i = here[row]
            sizes = np.array([moved for (_, moved), stays in zip(exchanges, beside[row], strict=True) if stays])
            links = np.array([islands[i].inside])
            alone = least_moving(sizes, 0.0, 0, links)[0]
            staying[number] = alone, least_moving(sizes, float(instance.ring[s]), around, links)[0] if around else alone
        found.away[:, s], found.inside[:, s] = (rest[:, None] + staying[case]).T
    return found
