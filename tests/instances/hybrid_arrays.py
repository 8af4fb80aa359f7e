"""Arrays of the hybrid problem made by hand, for its compiled kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from instances.kernel_arrays import NEVER
from partita.engines.kernels.arrays import as_arrays
from partita.engines.kernels.hybrid.arrays import HybridArrays, HybridKnown, HybridScratch, HybridWork

__all__ = ["arrays_of", "scratch_of", "work_of"]


def arrays_of(**fields: Any) -> HybridArrays:
    """Arrays of which only some are read."""
    unread = {name: np.zeros(_SHAPES.get(name, (1,))) for name in HybridArrays._fields}
    return as_arrays(HybridArrays, unread | fields)


#: Arrays with more than one dimension that are not given get these shapes.
_TABLES = ("missing", "edge_enter", "edge_leave", "segment", "option_ptr", "kind", "members", "work")
_SUMS = ("time", "weight", "active", "fixed", "sharded", "small_active", "small_fixed", "small_time")
_SHAPES = dict.fromkeys(_TABLES, (1, 1)) | dict.fromkeys(_SUMS, (1, 1, 2))


def scratch_of(layers: int, options: int) -> HybridScratch:
    """Room for the knapsack."""
    size = layers + options + 3
    return as_arrays(HybridScratch, {name: np.zeros(size) for name in HybridScratch._fields})


def work_of(h: HybridArrays, s: HybridScratch) -> HybridWork:
    """With nothing known."""
    known = as_arrays(HybridKnown, {name: np.zeros(1) for name in HybridKnown._fields})
    return HybridWork(h, s, known, NEVER)
