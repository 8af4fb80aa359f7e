"""Which rings cannot pass an island: two stages that exchange bytes, through devices that are too few for both.

Source: own. Rings of all stages go through the same columns in the same order. Take two stages with rings that
exchange bytes, islands in a row, and a few of them in the middle, with others *before* and *behind*. Suppose that one
column has both stages before the middle and another has both behind it. Then the ring leads from one to the other and
back, through different columns; on both ways, the last column with both before and the next one with both behind have
only columns between them that have neither. Each of these uses as many devices of the middle as it has of the two
stages there. So if every sequence of columns from before to behind in which all replicas can be within a target uses
more than half of the middle's devices, then no column has both stages before it, or none has both behind it.

A sequence is a path, whose nodes are the islands of both stages in a column, and whose edges are what links between two
islands leave within the target. Without this, either ring alone seems to pass: one through the devices of a small
island, the other over it, while the exchanges between both leave time for no such thing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Bools
from partita.problems.mapping.bounds.parts import Island
from partita.problems.mapping.instance import MappingInstance

#: Islands at most, and devices in the middle at most.
_ISLANDS, _MIDDLE = 40, 12
#: Halvings of an interval of limits.
_STEPS = 10


class Blocked(NamedTuple):
    """Two stages of which no column has both before some islands, or none has both behind them."""

    stages: tuple[int, int]
    before: tuple[int, ...]
    behind: tuple[int, ...]


class Passages:
    """The islands of a problem with as many replicas of every stage, and the links between them."""

    def __init__(self, instance: MappingInstance, islands: Sequence[Island]) -> None:
        self.instance, self.islands = instance, islands
        inverse, count = instance.arrays.inverse, len(islands)
        #: Seconds per byte from island to island, at least.
        self.pace = np.empty((count, count))
        for i, one in enumerate(islands):
            row = inverse[one.members].min(axis=0)
            self.pace[i] = [row[other.members].min() for other in islands]
            self.pace[i, i] = one.inside[0]

    @cached_property
    def row(self) -> list[int]:
        """Islands in a row, where they are in one: those with fast links between them are near each other.

        By the eigenvector of the second eigenvalue of the Laplacian of bandwidths (Atkins, Boman and Hendrickson, "A
        spectral algorithm for seriation and the consecutive ones problem", 1998).
        """
        near = 1.0 / np.minimum(self.pace, self.pace.T)
        np.fill_diagonal(near, 0.0)
        near /= near.max(initial=0.0) or 1.0
        values, vectors = np.linalg.eigh(np.diag(near.sum(axis=1)) - near)
        if len(near) < 3 or values[2] - values[1] < 1e-9:
            # They are in no row.
            return list(range(len(near)))
        along = vectors[:, 1]
        along = np.round(along * (-1.0 if along[0] > 0 else 1.0), 9)
        return [int(i) for i in np.argsort(along, kind="stable")]

    def ceiling(self, low: float, high: float) -> float:
        """A limit between two, up to which something is blocked; the lower one if nothing is just above it."""
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if next(self.blocked(middle), None) else (low, middle)
        return low

    def blocked(self, limit: float) -> Iterator[Blocked]:
        """All that is known within a limit."""
        if not 3 <= len(self.islands) <= _ISLANDS:
            return
        sizes = np.array([len(island.members) for island in self.islands])
        order = self.row
        middles = [
            (first, last)
            for first in range(1, len(order) - 1)
            for last in range(first + 1, len(order))
            if sizes[order[first:last]].sum() <= _MIDDLE
        ]
        for s in range(self.instance.stages):
            for t, moved in self.instance.exchanges(s):
                if s < t and self.instance.partners[s] and self.instance.partners[t] and middles:
                    steps = self._steps(s, t, moved, limit)
                    for first, last in middles:
                        before, middle, behind = order[:first], order[first:last], order[last:]
                        if not _passes(steps, before, middle, behind, int(sizes[middle].sum()) // 2):
                            yield Blocked((s, t), tuple(before), tuple(behind))

    def _steps(self, s: int, t: int, moved: float, limit: float) -> Bools:
        """[a, b, c, d] whether a column with both stages in islands a and b can be beside one with both in c and d."""
        one, other = self._within(s, t, moved, limit), self._within(t, s, moved, limit)
        # [a, b, c, d]: s of the first column in a, beside c, with t in b; and the other way.
        here: Bools = one[:, :, :, None] & other.transpose(1, 0, 2)[:, :, None, :]
        return here & here.transpose(2, 3, 0, 1)

    def _within(self, s: int, t: int, moved: float, limit: float) -> Bools:
        """[i, j, k] whether s can be in island i with t in j and the next of its ring in k."""
        rest = sum(size for u, size in self.instance.exchanges(s)) - moved
        least = np.array([island.times[s] + rest * island.inside[0] for island in self.islands])
        pair, ring = moved * self.pace, float(self.instance.ring[s]) * self.pace
        found: Bools = least[:, None, None] + pair[:, :, None] + ring[:, None, :] <= limit
        return found


def _passes(steps: Bools, before: list[int], middle: list[int], behind: list[int], most: int) -> bool:
    """Whether columns lead from before the middle to behind it, with at most so many devices of the middle."""
    count = len(steps)
    at = np.zeros(count, dtype=np.int64)
    at[middle] = 1
    uses = (at[:, None] + at[None, :]).ravel()
    near = steps.reshape(count * count, count * count)
    ends = []
    for side in (before, behind):
        inside = np.zeros(count, dtype=bool)
        inside[side] = True
        ends.append((inside[:, None] & inside[None, :]).ravel())
    between = ~(ends[0] | ends[1])
    #: By devices used so far, columns that are reached with no fewer.
    reached = [ends[0], *(np.zeros(count * count, dtype=bool) for _ in range(most + 2))]
    seen = np.zeros(count * count, dtype=bool)
    for used in range(most + 1):
        edge = reached[used] & ~seen
        while edge.any():
            seen |= edge
            following = near[edge].any(axis=0)
            if (following & ends[1]).any():
                return True
            following &= between & ~seen
            for more in (1, 2):
                reached[used + more] |= following & (uses == more)
            edge = following & (uses == 0)
    return False
