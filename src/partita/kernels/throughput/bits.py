"""Sets of items as rows of 64-bit words."""

from __future__ import annotations

import numpy as np

from partita.kernels.compiled import inlined
from partita.kernels.throughput.arrays import Words


@inlined
def has(row: Words, v: int) -> bool:
    """Whether an item is in the set."""
    return bool((row[v // 64] >> np.uint64(v % 64)) & np.uint64(1) != 0)


@inlined
def add(row: Words, v: int) -> None:
    """Put an item into the set."""
    row[v // 64] |= np.uint64(1) << np.uint64(v % 64)
