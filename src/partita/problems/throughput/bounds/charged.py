"""What is known of all splits up to a target: work that transfers are charged to, and what excludes what."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, row_masks
from partita.engines.kernels.throughput.forced_cuts import Parts


@dataclass(frozen=True)
class Charged:
    """What is known to hold in all splits with loads up to a target."""

    target: float  #: Largest objective for which it holds.
    #: (n,) work with the cost of the nets that are cut in any case charged to it. For every block S of such a split, Σ
    #: ``work`` over S and the cost of the other nets that S cuts are together at most f(S).
    work: Floats
    share: Floats  #: (n,) shares of a block that items need at least: no block has more than one in all.
    parts: Parts  #: Which items are in no common block, which nets are cut, and which blocks items can be in.

    def at(self, target: float) -> Charged:
        """A copy for a smaller target, at which all of it still holds."""
        p = self.parts
        parts = p._replace(apart=p.apart.copy(), forced=p.forced.copy(), first=p.first.copy(), last=p.last.copy())
        return Charged(target, self.work.copy(), self.share.copy(), parts)

    @property
    def apart(self) -> Bools:
        """(n, n) items that are not in one block; none if pairs were not looked at."""
        n, rows = len(self.work), self.parts.apart
        return row_masks(rows, n) if len(rows) else np.zeros((n, n), dtype=bool)
