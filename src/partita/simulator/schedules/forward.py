"""Forward only: inference, or a stream of samples."""

from __future__ import annotations

from collections.abc import Sequence

from partita.simulator.schedules.protocol import Action, InTurns


class ForwardOnly(InTurns):
    """Every rank runs all microbatches forward, in order, and keeps nothing of them."""

    name = "forward"
    settles = True
    summary = "forward passes only, in order"
    training = False

    def own_order(self, stage: int, microbatches: Sequence[int], in_flight: int) -> list[Action]:
        """All forward actions; however many may be held, one is enough."""
        return [Action(stage, "F", microbatch) for microbatch in microbatches]

    def in_flight(self, rank: int, ranks: int, chunks: int, microbatches: int) -> int:
        """The one that is being run."""
        return min(1, microbatches)
