"""Convex sets that a search takes items into one by one: what follows from the items in and out, as sets of bits.

A convex set holds with two items all between them. Some items never share a block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bytes, Ints, Words
from partita.engines.kernels.bits import add, has, listed
from partita.engines.kernels.compiled import inlined


class Exclusions(NamedTuple):
    """What blocks cannot hold at one target: n items, m nets, w words of 64 items.

    ``after``, ``before`` and ``conflict`` are (n, w) bit sets: descendants, ancestors, items that never share a block
    with an item. ``split`` tells nets whose pins never share a block; ``together`` (m,) bounds how many of them can.
    """

    after: Words
    before: Words
    conflict: Words
    split: Bytes
    together: Ints


@inlined
def close(x: Exclusions, sets: Words, some: Words, members: Ints) -> bool:
    """Take in what lies between, leave out what would leave a gap; false if that is impossible.

    ``sets`` are the bit sets of items in, items out, descendants and ancestors of those in; ``some`` and ``members``
    are scratch.
    """
    words = sets.shape[1]
    count = 1
    while count > 0:
        for j in range(words):
            some[j] = sets[2, j] & sets[3, j] & ~sets[0, j]
        count = listed(some, members)
        for v in members[:count]:
            include(x, sets, v)
    for j in range(words):
        some[j] = sets[1, j] & (sets[2, j] | sets[3, j])
    for v in members[: listed(some, members)]:
        gap = x.after[v] if has(sets[2], v) else x.before[v]
        for j in range(words):
            sets[1, j] |= gap[j]
    clash = np.uint64(0)
    for j in range(words):
        clash |= sets[0, j] & sets[1, j]
    return bool(clash == np.uint64(0))


@inlined
def include(x: Exclusions, sets: Words, v: int) -> None:
    """Take an item in, and what follows at once: conflicts go out; its descendants and ancestors are noted."""
    add(sets[0], v)
    for q in range(sets.shape[1]):
        sets[1, q] |= x.conflict[v, q]
        sets[2, q] |= x.after[v, q]
        sets[3, q] |= x.before[v, q]
