"""One target objective, decided: all boxes of GPipe's objective, all orders of the groups, both directions at once.

*Directions.* Which direction of the graph is easy is not known beforehand (factors of a thousand either way on
published graphs), so every box is a race. Effort is counted in nodes and grows in legs with barriers, so that a seed
repeats unless the clock stops it.

*Boxes.* A split with forward maximum A in [l, h] and A + B ≤ T has B ≤ T − l. If no split has A ≤ h and B ≤ T − l, the
interval holds none. If one is found with A + B ≤ T, the target is met. Otherwise the interval is cut in two, near the
middle, where the split found lies in neither part's box. Every cut rules a pair of values out, so this ends. Other
objectives have one box.

*Orders.* With two groups the pipeline starts with either; both are searched unless the groups are alike.

Why the pruning of one search is safe is said where the searchers are: ``plain`` and ``variant``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from partita.engines.kernels.arrays import Longs
from partita.engines.kernels.throughput import search_state as at
from partita.engines.kernels.throughput.search_state import (
    DownsetSearch,
    Own,
    StateStore,
    Tally,
    Until,
    Weights,
    enlarged,
    new_scratch,
    random_words,
    stages_found,
)
from partita.ground.errors import DisagreementError
from partita.ground.rounding import TOLERANCE
from partita.problems.throughput.solvers.remaining_capacity import Capacity, capacity
from partita.problems.throughput.solvers.view import PhaseLoads, SearchView, Split, SplitStage, ViewedSplit

#: A race promises an answer while it expects to need at most this many times the nodes it has used.
PATIENCE = 8
#: Nodes of the longest leg.
LONGEST = 1 << 26
#: A split this little above the target, relative, meets it: boxes are cut by more than rounding.
MET = TOLERANCE / 2
#: Most bytes for the states of one decision.
MAX_BYTES = 8e8
#: Status of a decision that ran out of memory for its states; the others are those of the kernels.
FULL = 9


class Searcher(ABC):
    """What all decisions about one problem in one direction share; no limit will be larger than ``top``."""

    #: Goes on with a search; and the numbers that it saves at every depth.
    kernel: Callable[[Any], int]
    columns: ClassVar[int]
    #: Whether that rule is safe.
    dominance: bool

    def __init__(self, view: SearchView, top: float) -> None:
        self.view = view
        self.capacity: Capacity = capacity(view, top)
        self.zobrist = random_words(view.items)

    @abstractmethod
    def start(self, limits: PhaseLoads) -> DownsetSearch[Any]:
        """A search that has not begun."""

    def _search(self, limits: PhaseLoads, store: StateStore, tally: Tally, own: Own) -> DownsetSearch[Own]:
        """A search with all that is the same for plain problems and variants."""
        view, cap, nobody = self.view, self.capacity, np.zeros(1, dtype=np.int64)
        return DownsetSearch(
            arrays=view.arrays,
            codes=view.codes,
            replicas=view.replicas,
            phase=1 - view.early,
            weights=Weights(cap.item, cap.net, cap.choice, cap.budget(limits), cap.radix),
            tally=tally,
            store=store,
            scratch=new_scratch(view.arrays, self.zobrist, self.columns),
            dominance=self.dominance,
            own=own,
            until=Until(0, nobody, nobody),
        )


class Decision:
    """One search with one set of limits; ``run`` continues it."""

    def __init__(self, searcher: Searcher, limits: PhaseLoads) -> None:
        self.searcher, self.view = searcher, searcher.view
        self.search = searcher.start(limits)

    @property
    def nodes(self) -> int:
        """Decisions made so far: the deterministic measure of effort."""
        return int(self.search.store.counters[at.NODES])

    @property
    def expected(self) -> float:
        """Nodes still needed if the levels to come are as wide as what is open now.

        Infinite in the first state, and for searches that do not go level by level.
        """
        counters = self.search.store.counters
        done = int(counters[at.TAKEN]) - 1
        if done <= 0:
            return float("inf")
        levels = sum(self.view.counts) - int(counters[at.LEVEL])
        return self.nodes / done * max(1, int(counters[at.STATES]) - done) * levels

    def run(self, node_limit: int, stop: Longs, halt: Longs | None = None) -> int:
        """Search until an answer, ``node_limit`` nodes in all, a raised ``stop[0]`` or ``halt[0]``, or full memory."""
        self.search = self.search._replace(until=Until(node_limit, stop, stop if halt is None else halt))
        while True:
            status = int(self.searcher.kernel(self.search))
            if status != at.GROW:
                return status
            grown = enlarged(self.search.store, self.search.scratch.words.shape[0], MAX_BYTES)
            if grown is None:
                return FULL
            self.search = self.search._replace(store=grown)

    def split(self) -> Split:
        """The stages of a found split, in search order."""
        return [SplitStage(*stage) for stage in stages_found(self.search.store, self.view.items)]


@dataclass
class _Box:
    """Forward maxima from ``low`` to ``high`` in one order of the groups; decisions that are full have left."""

    order: int
    low: float
    high: float
    leg: int
    decisions: list[Decision] | None = None


class Target:
    """Is there a split of objective at most ``value``?

    There is one searcher for each order of the groups and each direction. Directions share the threads of ``pool``, or
    take turns where it is None; a raised ``stop`` ends all work soon. ``found`` is a split that meets the target,
    ``near`` one met on the way whose objective is larger; ``nodes`` are those of all directions.
    """

    def __init__(
        self,
        searchers: Sequence[Sequence[Searcher]],
        value: float,
        low: PhaseLoads,
        pool: ThreadPoolExecutor | None,
        stop: Longs,
    ) -> None:
        self.searchers, self.value, self.pool, self.stop = searchers, value, pool, stop
        view = searchers[0][0].view
        self.gpipe, self.effort = view.gpipe, view.effort
        # Without limits of its own, a forward maximum may be anything.
        first, last = (low.forward, value - low.backward) if self.gpipe else (0.0, value)
        orders = range(len(searchers)) if last >= first else ()
        self.boxes = [_Box(order, first, last, self.effort.leg) for order in orders]
        self.nodes = 0
        self.found: ViewedSplit | None = None
        self.near: ViewedSplit | None = None

    @property
    def full(self) -> bool:
        """Whether all directions have run out of memory."""
        return bool(self.boxes) and self.boxes[-1].decisions == []

    def promising(self) -> bool:
        """Whether some direction will answer soon if its levels go on as they are."""
        racing = self.boxes[-1].decisions or () if self.boxes else ()
        return any(d.expected <= PATIENCE * max(d.nodes, self.effort.first) for d in racing)

    def run(self, effort: int) -> int:
        """Up to about ``effort`` more nodes per direction; a status of the kernels or FULL."""
        while self.boxes:
            box = self.boxes[-1]
            if box.decisions is None:
                limits = PhaseLoads(self.value, box.high, self.value - box.low)
                box.decisions = [Decision(searcher, limits) for searcher in self.searchers[box.order]]
            if self.stop[0] != 0:
                return at.STOPPED
            if effort <= 0:
                return at.LIMIT
            leg = min(box.leg, effort)
            status, winner = self._leg(box.decisions, leg)
            effort -= leg
            box.leg = min(2 * box.leg, LONGEST)
            if status in (at.STOPPED, FULL):
                return status
            if status == at.REFUTED:
                self.boxes.pop()
            elif winner is not None and self._take(box, winner):
                return at.FOUND
        return at.REFUTED

    def _leg(self, decisions: list[Decision], leg: int) -> tuple[int, Decision | None]:
        """One leg of each direction: status, and who found a split.

        A refutation ends the others, because nothing else can change the answer; a split beside it is a defect.
        """
        if not decisions:
            return FULL, None
        halt = np.zeros(1, dtype=np.int64)
        before = sum(decision.nodes for decision in decisions)

        def advance(decision: Decision) -> int:
            status = decision.run(decision.nodes + leg, self.stop, halt)
            if status == at.REFUTED:
                halt[0] = 1
            return status

        results: list[int] = []
        for status in (map if self.pool is None else self.pool.map)(advance, decisions):
            results.append(status)
            if self.pool is None and status in (at.REFUTED, at.FOUND):
                break
        self.nodes += sum(decision.nodes for decision in decisions) - before
        if at.REFUTED in results:
            if at.FOUND in results:
                raise DisagreementError(
                    f"the search from one end of the graph finds a split within {self.value!r}, from the other end none"
                )
            return at.REFUTED, None
        if self.stop[0] != 0:
            return at.STOPPED, None
        if at.FOUND in results:
            return at.FOUND, decisions[results.index(at.FOUND)]
        # A direction that ran out of memory leaves the race; the others go on.
        decisions[:] = [d for d, status in zip(decisions, results, strict=True) if status != FULL]
        return (at.LIMIT if decisions else FULL), None

    def _take(self, box: _Box, winner: Decision) -> bool:
        """Use a found split: it meets the target, or cuts the interval of its box."""
        found = ViewedSplit(winner.view, winner.split())
        objective, forward, backward = found.value
        # The objective of GPipe has no limit in a box.
        if self.gpipe:
            check(found, forward, box.high)
            check(found, backward, self.value - box.low)
        else:
            check(found, objective, self.value)
        if not self.gpipe or objective <= self.value * (1 + MET):
            self.found = found
            return True
        if self.near is None or objective < self.near.value.both:
            self.near = found
        self.boxes.pop()
        # Cut where the split's forward maximum is too large for the left part, its backward one for the right part.
        least, most = self.value - backward, forward
        margin = (most - least) / 4
        middle = min(max((box.low + box.high) / 2, least + margin), most - margin)
        leg = self.effort.leg
        self.boxes += [_Box(box.order, middle, box.high, leg), _Box(box.order, box.low, middle, leg)]
        return False


def check(found: ViewedSplit, reached: float, most: float) -> None:
    """Raise ``DisagreementError`` unless a split keeps a limit of its search."""
    # Where memory depends on the order of operators, the search may promise an order that is not found afterwards.
    if not found.view.ordered and reached > most + TOLERANCE * abs(most):
        raise DisagreementError(f"a split found by search takes {reached!r}, its target is {most!r}")
