"""Where the group that is filled first may end: ideals whose cut the links of both groups carry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partita.kernels.throughput.arrays import Floats, Words, bit_rows
from partita.kernels.throughput.search_memory import enlarged, ideal_masks, new_scratch, new_store, new_tally
from partita.kernels.throughput.search_state import GROW, IDEALS, LINE_COLUMNS
from partita.problems.throughput.solvers.variant_view import VariantView
from partita.problems.throughput.solvers.view import LoadLimits

#: Most ideals that are listed, and most of them that are kept.
MOST_IDEALS, MOST_CUTS = 200_000, 3_000


@dataclass(frozen=True)
class GroupCuts:
    """All ideals that may be a cut, with what each group's link carries there (cuts, 2, lines)."""

    words: Words
    links: Floats

    def within(self, limits: Floats) -> npt.NDArray[np.bool_]:
        """Which are within the limits; the last entry of ``limits`` is not of a line."""
        return np.asarray((self.links <= limits[:-1]).all(axis=(1, 2)))

    def beyond(self, view: VariantView, item: Floats, net: Floats) -> Floats:
        """(rows, cuts) weight of the items beyond each cut and of the nets that touch them."""
        outside = ~_bits(self.words, view.items)
        a = view.arrays
        touched = np.zeros((len(outside), net.shape[1]), dtype=bool)
        for e in range(net.shape[1]):
            touched[:, e] = outside[:, a.net_pins[a.net_ptr[e] : a.net_ptr[e + 1]]].any(axis=1)
        return item @ outside.T + net @ touched.T


def _bits(words: Words, items: int) -> npt.NDArray[np.bool_]:
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :items].astype(bool)


def find_group_cuts(view: VariantView, zobrist: Words, top: float) -> GroupCuts | None:
    """Cuts for limits up to ``top``; None if there are too many ideals or cuts."""
    from partita.kernels.throughput.group_cuts import find_cuts

    a, n = view.arrays, view.items
    tally = new_tally(np.zeros((0, n)), np.zeros((0, len(a.net_ptr) - 1)))
    scratch = new_scratch(a, zobrist, LINE_COLUMNS)
    words = scratch.words.shape[0]
    store = new_store(view.code_count, 1 << 10, 1, words << 10)
    limits, trial = view.shape.limits(LoadLimits(top, top, top)), np.zeros(len(view.shape.limit))
    fits = np.zeros(store.ideal_hash.shape[0], dtype=np.int8)
    stop = np.zeros(1, dtype=np.int64)
    while find_cuts(a, view.lines, tally, store, scratch, limits, trial, fits, stop) == GROW:
        grown = enlarged(store, words, 4e8) if store.counters[IDEALS] < MOST_IDEALS else None
        if grown is None:
            return None
        store = grown
        fits = np.concatenate([fits, np.zeros(store.ideal_hash.shape[0] - len(fits), dtype=np.int8)])
    kept = np.flatnonzero(fits[: int(store.counters[IDEALS])])
    if len(kept) > MOST_CUTS:
        return None
    masks = ideal_masks(store, kept, n)
    return GroupCuts(bit_rows(masks), np.stack([_links(view, row) for row in masks]))


def _links(view: VariantView, inside: npt.NDArray[np.bool_]) -> Floats:
    """(2, lines) of the links where the group filled first holds the items ``inside``."""
    a, b = view.arrays, view.lines
    held = np.add.reduceat(inside[a.net_pins].astype(np.int64), a.net_ptr[:-1]) if len(a.net_ptr) > 1 else np.zeros(0)
    cut = (held > 0) & (held < np.diff(a.net_ptr))
    made = inside[b.maker] & cut
    other = cut & ~made
    first = b.group_out[0][made].sum(axis=0) + b.group_in[0][other].sum(axis=0)
    second = b.group_in[1][made].sum(axis=0) + b.group_out[1][other].sum(axis=0)
    return np.stack([first, second])
