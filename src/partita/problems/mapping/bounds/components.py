"""Connected components of relations between devices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Bools


def components(linked: Bools) -> list[npt.NDArray[np.int64]]:
    """The connected components of a symmetric relation; members of each, ascending."""
    label = np.arange(len(linked))
    while True:
        lowest = np.where(linked, label[None, :], len(linked)).min(axis=1, initial=len(linked))
        fresh = np.minimum(label, lowest)
        fresh = np.minimum(fresh, fresh[fresh])
        if np.array_equal(fresh, label):
            break
        label = fresh
    return [np.flatnonzero(label == name) for name in np.unique(label)]
