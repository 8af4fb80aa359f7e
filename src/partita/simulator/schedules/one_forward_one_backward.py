"""1F1B: as soon as a microbatch can go backward it does, before one more goes forward."""

from __future__ import annotations

from collections.abc import Sequence

from partita.simulator.schedules.phases import one_each
from partita.simulator.schedules.protocol import Action, InTurns


class OneForwardOneBackward(InTurns):
    """1F1B with a flush: PipeDream-Flush (Narayanan et al., ICML 2021, section 3.2), as in Megatron-LM (SC 2021).

    With equal stages and no communication the step takes (M + S − 1) · (f + b), as GPipe's, but rank i holds
    min(S − i, M) microbatches, not M.
    """

    name = "1f1b"
    settles = True
    summary = "one forward, one backward in turn, with a flush (Narayanan et al., ICML 2021)"

    def own_order(self, stage: int, microbatches: Sequence[int], in_flight: int) -> list[Action]:
        """Warm-up of ``in_flight`` − 1 forward actions, then one forward and one backward in turn, then the rest."""
        units = [(stage, microbatch) for microbatch in microbatches]
        return one_each(units, units, in_flight - 1)

    def in_flight(self, rank: int, ranks: int, chunks: int, microbatches: int) -> int:
        """As many as there are ranks from this one to the last."""
        return min(ranks - rank, microbatches)
