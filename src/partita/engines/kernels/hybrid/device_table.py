"""The table of a decision over suffix sets: what it holds, and where its rows fall."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints
from partita.engines.kernels.compiled import compiled

#: More devices than there are.
NONE = 1 << 30


class DeviceTable(NamedTuple):
    """The table of a decision over the Z sets and the sums s of data-parallel degrees, 0 to S."""

    fewest: Ints  #: (Z, S + 1) fewest devices, or machines, that run each set with degrees summing to at most s.
    #: The smallest bottleneck of the plans that attain it, if it has the shape of ``fewest``: a plan with the fewest
    #: devices for a set and a sum has the fewest for the sets inside it, too, so that the bottleneck follows the same
    #: recursion. That needs every degree uniform and ``fill_times`` first.
    least: Floats
    #: (S + 1,) only plans are of interest that have at most so many devices, which never rises, for all layers if the
    #: degrees of some sets inside add up to s: other entries of ``fewest`` may stay at NONE.
    limits: Ints
    ahead: Ints  #: (Z,) devices, or machines, that the layers outside need at least.


class Falls(NamedTuple):
    """Where a row of the table falls: the sum of degrees, the devices and the bottleneck."""

    at: Ints
    held: Ints
    slowest: Floats


@compiled
def close(table: DeviceTable, place: int, ahead: int, falls: Falls) -> int:
    """Make a row fall, drop entries beyond the limits, and list where it falls; returns their number."""
    row, carry = table.fewest[place], table.least.shape[0] == table.fewest.shape[0]
    times = table.least[place if carry else 0]
    best, worst, count = NONE, np.inf, 0
    for k in range(row.shape[0]):
        time = times[k] if carry else 0.0
        if row[k] <= table.limits[k] - ahead and (row[k] < best or (row[k] == best and time < worst)):
            best, worst = row[k], time
            falls.at[count], falls.held[count], falls.slowest[count] = k, best, worst
            count += 1
        row[k] = best
        if carry:
            times[k] = worst
    return count
