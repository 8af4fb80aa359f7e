"""Where the group that is filled first may end: ideals whose cut the links of both groups carry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Floats, Words, bit_rows
from partita.engines.kernels.throughput.search_memory import enlarged, ideal_masks, new_scratch, new_store, new_tally
from partita.engines.kernels.throughput.search_state import GROW, IDEALS, LINE_COLUMNS, Store
from partita.problems.throughput.solvers.variant_view import VariantView
from partita.problems.throughput.solvers.view import LoadLimits

#: Most ideals that are listed, and most of them that are kept.
MOST_IDEALS, MOST_CUTS = 200_000, 3_000


@dataclass(frozen=True)
class GroupCuts:
    """All ideals that may be a cut; none if they are not known."""

    words: Words  #: (cuts, words) the items before each cut.
    links: Floats  #: (cuts, 2, lines) what each group's link carries there.
    beyond: Floats  #: (rows, cuts) weight of the items beyond each cut and of the nets that touch them.

    def within(self, limits: Floats) -> tuple[Words, Floats]:
        """Words and weights beyond of those within the limits, of which the last entry is not of a line."""
        chosen = (self.links <= limits[:-1]).all(axis=(1, 2))
        return self.words[chosen], self.beyond[:, chosen].copy()


def find_group_cuts(view: VariantView, zobrist: Words, top: float, item: Floats, net: Floats) -> GroupCuts:
    """Cuts for limits up to ``top``, for (rows, n) and (rows, m) weights; none if there are too many ideals or cuts."""
    masks, links = np.zeros((0, view.items), dtype=bool), np.zeros((0, 2, len(view.shape.limit)))
    known = _all_ideals(view, zobrist) if view.lines.grouped else None
    if known is not None:
        store, carried = known
        kept = np.flatnonzero((carried <= view.shape.limits(LoadLimits(top, top, top))[:-1]).all(axis=(1, 2)))
        if len(kept) <= MOST_CUTS:
            masks, links = ideal_masks(store, kept, view.items), carried[kept]
    a, outside = view.arrays, ~masks
    touched = np.zeros((len(masks), net.shape[1]), dtype=bool)
    for e in range(net.shape[1]):
        touched[:, e] = outside[:, a.net.members(e)].any(axis=1)
    return GroupCuts(bit_rows(masks), links, item @ outside.T + net @ touched.T)


def _all_ideals(view: VariantView, zobrist: Words) -> tuple[Store, Floats] | None:
    """All ideals, and (ideals, 2, lines) what the links carry there; None if there are too many."""
    from partita.engines.kernels.throughput.group_cuts import find_cuts

    a = view.arrays
    tally = new_tally(np.zeros((0, view.items)), np.zeros((0, len(a.net.ptr) - 1)))
    scratch = new_scratch(a, zobrist, LINE_COLUMNS)
    words = scratch.words.shape[0]
    store = new_store(view.code_count, 1 << 10, 1, words << 10)
    links = np.zeros((store.ideal_hash.shape[0], 2, len(view.shape.limit)))
    stop = np.zeros(1, dtype=np.int64)
    while find_cuts(a, view.lines, tally, store, scratch, links, stop) == GROW:
        grown = enlarged(store, words, 4e8) if store.counters[IDEALS] < MOST_IDEALS else None
        if grown is None:
            return None
        store = grown
        links = np.concatenate([links, np.zeros((store.ideal_hash.shape[0] - len(links), *links.shape[1:]))])
    return store, links[: int(store.counters[IDEALS])]
