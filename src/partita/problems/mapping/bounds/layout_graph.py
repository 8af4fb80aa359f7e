"""Layouts of columns within a limit, and which of them can be beside each other in all rings at once.

Source: own; ``partita.problems.mapping.bounds.closed_walks`` looks for rounds in it. Most layouts are left out soon:
where another one takes as many devices of every island, and can be beside all that the first one can be beside, it can
stand for it in every round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Ints, Longs, Words, bit_rows
from partita.engines.kernels.mapping.column_graph import columns_beside, drop_dominated
from partita.problems.mapping.bounds.layouts import SLACK, Layouts, layouts_within
from partita.problems.mapping.bounds.parts import Island
from partita.problems.mapping.bounds.passages import Passages
from partita.problems.mapping.instance import MappingInstance

#: Layouts at most, before and after those are dropped for which others can stand; and pairs of these.
LISTED, MOST_LAYOUTS, _PAIRS = 30_000, 12_000, 6_000_000


class LayoutGraph(NamedTuple):
    """Columns by the islands of their stages, and rows of those that can be beside each one, ascending."""

    islands: npt.NDArray[np.int64]  #: (N, S)
    uses: Ints  #: (N, I) Devices of every island that each one takes.
    ptr: Longs
    beside: Ints


def graph_within(
    instance: MappingInstance, islands: list[Island], limit: float, stopping: Callable[[], bool]
) -> LayoutGraph | None:
    """The layouts of all columns that mappings within a limit need; None where they, or pairs of them, are too many.

    There are devices enough, and as many replicas of every stage. ``stopping`` is polled.
    """
    layouts = layouts_within(instance, islands, limit, LISTED)
    if layouts is None or stopping():
        return None
    room: Ints = np.array([len(island.members) for island in islands], dtype=np.int32)
    while True:
        own, leads = _sides(instance, islands, layouts, limit)
        uses: Ints = np.array([(layouts.islands == i).sum(axis=1) for i in range(len(islands))]).T.astype(np.int32)
        group: Ints = np.unique(uses, axis=0, return_inverse=True)[1].ravel().astype(np.int32)
        order: Ints = np.argsort(group, kind="stable").astype(np.int32)
        kept = np.ones(len(uses), dtype=bool)
        if not drop_dominated(own, leads, uses, room, group, order, kept):
            break
        layouts = Layouts(layouts.islands[kept], layouts.away[kept], layouts.inside[kept])
    ptr: Longs = np.zeros(len(uses) + 1, dtype=np.int64)
    beside: Ints = np.empty(_PAIRS, dtype=np.int32)
    stop = np.array([stopping()], dtype=np.int64)
    pairs = columns_beside(own, leads, uses, room, stop, ptr, beside) if len(uses) <= MOST_LAYOUTS else -1
    return None if pairs < 0 else LayoutGraph(layouts.islands, uses, ptr, beside[:pairs].copy())


def _sides(instance: MappingInstance, islands: list[Island], layouts: Layouts, limit: float) -> tuple[Words, Words]:
    """(N, S · I) Sets: where each layout has its stages, and where layouts beside it may have them."""
    pace, count = Passages(instance, islands).pace, len(layouts.islands)
    width = instance.stages * len(islands)
    most = limit * (1 + SLACK)
    own = np.zeros((count, instance.stages, len(islands)), dtype=bool)
    leads = np.ones(own.shape, dtype=bool)
    rows = np.arange(count)
    for s in range(instance.stages):
        here = layouts.islands[:, s]
        own[rows, s, here] = True
        if instance.partners[s]:
            ring = float(instance.ring[s]) * pace[here]
            leads[:, s] = layouts.away[:, s][:, None] + ring <= most
            leads[rows, s, here] = layouts.inside[:, s] <= most
    return bit_rows(own.reshape(count, width)), bit_rows(leads.reshape(count, width))
