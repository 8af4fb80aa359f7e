"""What the two searches over ideals share: they go on until an answer, and their memory grows with them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from partita.kernels.throughput.arrays import Longs, Words
from partita.kernels.throughput.search_memory import enlarged, new_scratch, stages_found
from partita.kernels.throughput.search_state import GROW, NODES, STATES, Store, Until
from partita.problems.throughput.solvers.view import Placed, SearchView, Split

#: Status of a decision that ran out of memory for its states; the others are those of the kernels.
FULL = 9


class IdealsDecision(ABC):
    """One search with one set of limits; ``run`` continues it.

    Parameters
    ----------
    view
        The problem in one direction.
    store
        For ideals and states.
    zobrist, columns
        As for ``new_scratch``.
    max_bytes
        Most memory of the store.
    """

    def __init__(self, view: SearchView, store: Store, zobrist: Words, columns: int, max_bytes: float) -> None:
        self.view, self.store, self.max_bytes = view, store, max_bytes
        self.scratch = new_scratch(view.arrays, zobrist, columns)

    @property
    def nodes(self) -> int:
        """Decisions made so far: the deterministic measure of effort."""
        return int(self.store.counters[NODES])

    @property
    def states(self) -> int:
        """States kept so far."""
        return int(self.store.counters[STATES])

    @property
    def expected(self) -> float:
        """Nodes still needed, as far as one can tell."""
        return float("inf")

    def run(self, node_limit: int, stop: Longs, halt: Longs | None = None) -> int:
        """Search until an answer, ``node_limit`` nodes in all, a raised ``stop[0]`` or ``halt[0]``, or full memory."""
        until = Until(node_limit, stop, stop if halt is None else halt)
        while True:
            status = self._go_on(until)
            if status != GROW:
                return status
            grown = enlarged(self.store, self.scratch.words.shape[0], self.max_bytes)
            if grown is None:
                return FULL
            self.store = grown

    @abstractmethod
    def _go_on(self, until: Until) -> int:
        """Call the kernel."""

    def split(self) -> Split:
        """The stages of a found split, in search order."""
        stages: list[tuple[int, int, Any]] = stages_found(self.store, self.view.items)
        return [Placed(*stage) for stage in stages]
