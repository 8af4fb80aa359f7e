"""What V-shaped schedules share: two stages on each rank, one on the way down the chain of ranks and one on the way up.

Rank r has stages r and 2 · ranks − 1 − r (Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS 2024).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import cast

from partita.simulator.schedules.protocol import Action, Letter, Schedule


class VShape(Schedule):
    """A schedule with such a placement."""

    splits_backward = True
    default_chunks = 2

    def refusal(self, ranks: int, chunks: int, microbatches: int) -> str | None:
        """It needs two stages on each rank."""
        return None if chunks == 2 else f"schedule {self.name} has two stages on each rank; set chunks to 2"

    def rank_of(self, ranks: int, chunks: int) -> list[int]:
        """Down the row, and up again."""
        return [*range(ranks), *reversed(range(ranks))]


class RankOrder:
    """The order of one rank while it is being written: patterns of letters and chunks, repeated.

    In a pattern ``F0`` is the forward action of the rank's chunk 0 for its next microbatch; likewise ``B0`` and ``I0``,
    which count together, and ``W0``. ``W`` is the weight gradient whose input gradient was made first, of either chunk;
    an order has this one or those with a chunk.
    """

    def __init__(self, rank: int, ranks: int) -> None:
        self.order: list[Action] = []
        self._stages = (rank, 2 * ranks - 1 - rank)
        forward, backward, weights = ((count(), count()) for _ in range(3))
        self._next = {"F": forward, "B": backward, "I": backward, "W": weights}
        self._owed: deque[Action] = deque()

    def add(self, pattern: str, times: int = 1) -> None:
        """Add the actions of a pattern, one after the other, so many times."""
        words = [self._word(word) for word in pattern.split()]
        for _ in range(times):
            for stage, letter, counter in words:
                if counter is None:
                    self.order.append(self._owed.popleft())
                    continue
                microbatch = next(counter)
                self.order.append(Action(stage, letter, microbatch))
                if letter == "I":
                    self._owed.append(Action(stage, "W", microbatch))

    def _word(self, word: str) -> tuple[int, Letter, Iterator[int] | None]:
        """The stage and letter of a word of a pattern, and what counts its microbatches; nothing does for ``W``."""
        letter = cast("Letter", word[0])
        if len(word) == 1:
            return -1, letter, None
        chunk = int(word[1])
        return self._stages[chunk], letter, self._next[letter][chunk]
