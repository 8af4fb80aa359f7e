"""GPipe: all forward, then all backward."""

from __future__ import annotations

from collections.abc import Sequence

from partita.simulator.schedules.protocol import Action, InTurns


class GPipe(InTurns):
    """All microbatches forward, then all of them backward in the same order (Huang et al., NeurIPS 2019, section 2.2).

    Every rank holds a whole batch, whatever it may hold.
    """

    name = "gpipe"
    barrier = True
    summary = "all forward, then all backward (Huang et al., NeurIPS 2019)"

    def own_order(self, stage: int, microbatches: Sequence[int], in_flight: int) -> list[Action]:
        """All forward actions, then all backward actions; ``in_flight`` does not limit it."""
        forward = [Action(stage, "F", microbatch) for microbatch in microbatches]
        return forward + [Action(stage, "B", microbatch) for microbatch in microbatches]

    def in_flight(self, rank: int, ranks: int, chunks: int, microbatches: int) -> int:
        """All microbatches."""
        return microbatches
