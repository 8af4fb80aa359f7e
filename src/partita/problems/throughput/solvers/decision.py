"""The decision "is there an acyclic split within the limits?", resumable.

Why its pruning is safe is said where the searchers are: ``plain`` and ``variant``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from partita.engines.kernels.arrays import Longs
from partita.engines.kernels.throughput import search_state as at
from partita.engines.kernels.throughput.search_memory import enlarged, new_scratch, random_words, stages_found
from partita.engines.kernels.throughput.search_state import DownsetSearch, Own, StateStore, Tally, Until, Weights
from partita.problems.throughput.solvers.remaining_capacity import Capacity, capacity
from partita.problems.throughput.solvers.view import PhaseLoads, SearchView, Split, SplitStage

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
