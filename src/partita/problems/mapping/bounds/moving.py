"""What a replica takes at least for what it moves over given links, and how far a bound on that is rounded down."""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.ground.rounding import rounded_down
from partita.problems.mapping.instance import MappingReplicas


def lowered(instance: MappingReplicas, value: float) -> float:
    """What a replica takes at least: its own time, and a product of three numbers for every partner and its ring."""
    if math.isinf(value):
        return value
    most = int(np.diff(instance.ptr).max(initial=0)) + 2
    return rounded_down(value, value, 3 * most)


def least_moving(sizes: Floats, ring: float, partners: int, links: Floats) -> Floats:
    """(D,) What a replica takes at least for transfers of some sizes and a ring, over links as in ``best_loads``."""
    count, least = len(sizes) + partners, np.full(len(links), math.inf)
    if links.shape[1] < count:
        # There are no partners without devices for all.
        return least
    falling: Floats = np.sort(sizes)[::-1]
    if partners == 0:
        least = links[:, :count] @ falling
    for last in range(partners - 1, count) if partners else ():
        rest = [k for k in range(count) if not last - partners < k <= last]
        least = np.minimum(least, links[:, rest] @ falling + ring * links[:, last])
    return least
