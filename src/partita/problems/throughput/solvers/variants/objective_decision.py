"""One target objective, decided: all boxes of GPipe's objective, all orders of the groups, both directions at once.

*Boxes.* A split with forward maximum A in [l, h] and A + B ≤ T has B ≤ T − l. If no split has A ≤ h and B ≤ T − l, the
interval holds none. If one is found with A + B ≤ T, the target is met. Otherwise the interval is cut in two, near the
middle, where the split found lies in neither part's box. Every cut rules a pair of values out, so this ends.

*Orders.* With two groups the pipeline starts with either; both are searched unless the groups are alike.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from partita.kernels.throughput.arrays import Longs
from partita.problems.throughput.solvers.variants.decision import FULL, VariantDecision, VariantSearcher
from partita.problems.throughput.solvers.variants.prepared import Split, VariantPrepared
from partita.problems.throughput.solvers.variants.remaining_capacity import LowerBounds

__all__ = ["Target"]

#: Nodes of the first leg of a race.
LEG = 30_000

#: A split this little above the target, relative, meets it: boxes are cut by more than rounding.
MET = 5e-10


@dataclass
class _Box:
    """Forward maxima from ``low`` to ``high`` in one order of the groups."""

    order: int
    low: float
    high: float
    decisions: list[VariantDecision] | None = None
    leg: int = LEG


class Target:
    """Is there a split of objective at most ``value``?

    Parameters
    ----------
    searchers
        For each order of the groups, one searcher for each direction.
    value
        The objective.
    low
        Lower bounds.
    pool
        Threads for the directions; None for one after the other.
    stop
        Shared flag; non-zero ends all work soon.
    """

    def __init__(
        self,
        searchers: list[list[VariantSearcher]],
        value: float,
        low: LowerBounds,
        pool: ThreadPoolExecutor | None,
        stop: Longs,
    ) -> None:
        self.searchers, self.value, self.low, self.pool, self.stop = searchers, value, low, pool, stop
        self.gpipe = searchers[0][0].prepared.shape.gpipe
        first, last = (low.forward, value - low.backward) if self.gpipe else (0.0, 0.0)
        self.boxes = [_Box(order, first, last) for order in range(len(searchers))] if last >= first else []
        self.nodes = 0
        self.found: tuple[VariantPrepared, Split] | None = None
        #: A split met on the way whose objective is larger than the target.
        self.near: tuple[VariantPrepared, Split] | None = None

    def run(self, effort: int) -> int:
        """Up to about ``effort`` more nodes per direction; a status of the kernel or FULL."""
        from partita.kernels.throughput.search_state import FOUND, LIMIT, REFUTED, STOPPED

        while self.boxes:
            box = self.boxes[-1]
            if box.decisions is None:
                limits = (self.value, box.high, self.value - box.low)
                box.decisions = [VariantDecision(searcher, limits) for searcher in self.searchers[box.order]]
            while True:
                if self.stop[0] != 0:
                    return STOPPED
                if effort <= 0:
                    return LIMIT
                status, winner = self._leg(box, min(box.leg, effort))
                effort -= box.leg
                box.leg = min(2 * box.leg, 1 << 26)
                if status in (STOPPED, FULL):
                    return status
                if status == REFUTED:
                    self.boxes.pop()
                    break
                if winner is not None:
                    if self._take(box, winner):
                        return FOUND
                    break
        return REFUTED

    def _leg(self, box: _Box, nodes: int) -> tuple[int, VariantDecision | None]:
        """One leg of each direction of a box: status, and who found a split. A refutation ends the others."""
        from partita.kernels.throughput.search_state import FOUND, LIMIT, REFUTED, STOPPED

        assert box.decisions is not None
        halt = np.zeros(1, dtype=np.int64)
        before = sum(decision.nodes for decision in box.decisions)

        def advance(decision: VariantDecision) -> int:
            status = decision.run(decision.nodes + nodes, self.stop, halt)
            if status == REFUTED:
                halt[0] = 1
            return status

        if self.pool is None or len(box.decisions) == 1:
            results: list[int] = []
            for decision in box.decisions:
                results.append(advance(decision))
                if results[-1] in (REFUTED, FOUND):
                    break
        else:
            results = list(self.pool.map(advance, box.decisions))
        self.nodes += sum(decision.nodes for decision in box.decisions) - before
        if REFUTED in results:
            return REFUTED, None
        if self.stop[0] != 0:
            return STOPPED, None
        if FOUND in results:
            return FOUND, box.decisions[results.index(FOUND)]
        # A direction that ran out of memory leaves the race; the others go on.
        box.decisions = [d for d, status in zip(box.decisions, results, strict=True) if status != FULL]
        return (LIMIT if box.decisions else FULL), None

    def _take(self, box: _Box, winner: VariantDecision) -> bool:
        """Use a found split: it meets the target, or cuts the interval of its box."""
        view, split = winner.searcher.prepared, winner.split()
        objective, forward, backward = view.value(split)
        if not self.gpipe or objective <= self.value * (1 + MET):
            self.found = (view, split)
            return True
        if self.near is None or objective < self.near[0].value(self.near[1])[0]:
            self.near = (view, split)
        self.boxes.pop()
        # Cut where the split's forward maximum is too large for the left part, its backward one for the right part.
        least, most = self.value - backward, forward
        margin = (most - least) / 4
        middle = min(max((box.low + box.high) / 2, least + margin), most - margin)
        self.boxes += [_Box(box.order, middle, box.high), _Box(box.order, box.low, middle)]
        return False
