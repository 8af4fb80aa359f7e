"""Bounds of a block between separators for every pair of their devices at once."""

from __future__ import annotations

import math

import numpy as np

from partita.problems.makespan.bounds.simple import impossible, simple_bound, work_bound
from partita.problems.makespan.instance import critical_of, labels
from partita.problems.makespan.separators import Block


class BlockBounds:
    """Chains by the devices of the ends, and work, which they do not change: they take no time here.

    Parameters
    ----------
    block
        The block.
    """

    def __init__(self, block: Block) -> None:
        self.block, self.instance = block, block.anywhere()
        self.ends = [place for place, v in enumerate(block.operators) if v in (block.entry, block.exit)]
        self.nowhere = impossible(self.instance) is not None
        self.work = 0.0 if self.nowhere else work_bound(self.instance)
        group = self.instance.arrays.group.of
        #: Where the device of an end is that of members, their work depends on it.
        self.tied = any(int((group == group[v]).sum()) > 1 for v in self.ends)

    def bound(self, source: int, target: int) -> float:
        """What the block takes at least between two devices; infinite if that cannot be."""
        homes = [d for d in (source, target) if d >= 0]
        able = self.instance.able
        if self.nowhere or not all(able[v, d] for v, d in zip(self.ends, homes, strict=True)):
            return math.inf
        able = able.copy()
        for v, d in zip(self.ends, homes, strict=True):
            able[self.instance.arrays.group.of == self.instance.arrays.group.of[v], :d] = False
            able[self.instance.arrays.group.of == self.instance.arrays.group.of[v], d + 1 :] = False
        if not able.any(axis=1).all():
            return math.inf
        time = np.where(able, self.instance.arrays.time, math.inf)
        chain = critical_of(*labels(self.instance.arrays, self.instance.ordered, time))
        return max(chain, simple_bound(self.block.at(source, target)) if self.tied else self.work)
