"""Sets of items as rows of 64-bit words."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Ints, Words
from partita.engines.kernels.compiled import inlined

#: Which of the 64 places in a word have a 1 in each of their six binary digits.
_DIGITS = tuple(np.uint64(sum(1 << place for place in range(64) if place >> digit & 1)) for digit in range(6))


@inlined
def has(row: Words, v: int) -> bool:
    """Whether an item is in the set."""
    return bool((row[v >> 6] >> np.uint64(v & 63)) & np.uint64(1) != 0)


@inlined
def add(row: Words, v: int) -> None:
    """Put an item into the set."""
    row[v >> 6] |= np.uint64(1) << np.uint64(v & 63)


@inlined
def listed(row: Words, members: Ints) -> int:
    """Items of the set, ascending; their number."""
    count = 0
    for j in range(row.shape[0]):
        rest = row[j]
        while rest != np.uint64(0):
            lowest = rest & (~rest + np.uint64(1))
            place = 64 * j
            for digit in range(6):
                if lowest & _DIGITS[digit]:
                    place += 1 << digit
            members[count] = place
            count += 1
            rest ^= lowest
    return count
