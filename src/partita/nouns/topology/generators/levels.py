"""Bandwidths by level: what joins two devices is the innermost group that holds both."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partita.nouns.topology.topology import Floats

Integers = npt.NDArray[np.int64]


def by_level(groups: Sequence[Integers], bandwidths: Sequence[float], outermost: float) -> Floats:
    """Bandwidth between every two devices.

    Parameters
    ----------
    groups
        Innermost level first: the group of every device.
    bandwidths
        Of two devices in one group, for each level, bytes per second.
    outermost
        Of two devices that no group holds.
    """
    count = len(groups[0])
    matrix = np.full((count, count), outermost)
    for group, bandwidth in zip(reversed(groups), reversed(bandwidths), strict=True):
        matrix[np.equal.outer(group, group)] = bandwidth
    return matrix


def blocks(count: int, size: int) -> Integers:
    """Devices in groups of one size, in order: the group of each."""
    return np.arange(count, dtype=np.int64) // size
