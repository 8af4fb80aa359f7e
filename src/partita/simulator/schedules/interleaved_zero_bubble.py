"""Interleaved zero bubble: ZB-H1 with several stages on each rank."""

from __future__ import annotations

from partita.simulator.schedules.phases import split_each
from partita.simulator.schedules.protocol import Action
from partita.simulator.schedules.rounds import InRounds, backward_units, forward_units, round_length


class InterleavedZeroBubble(InRounds):
    """ZB1P (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024) on interleaved stages, as torch has it.

    Against interleaved 1F1B the warm-up grows by one action for each rank before the last, not by two; a rank is as
    many weight gradients behind as there are ranks before it.
    """

    name = "interleaved-zero-bubble"
    summary = "interleaved 1F1B whose weight gradients fill the drain: ZB1P (Qi et al., ICLR 2024)"
    splits_backward = True

    def orders(self, ranks: int, chunks: int, microbatches: int) -> list[list[Action]]:
        """Round by round in turn, with weight gradients as many places late as there are ranks before."""
        return [
            split_each(
                forward_units(rank, ranks, chunks, microbatches),
                backward_units(rank, ranks, chunks, microbatches),
                (chunks - 1) * round_length(ranks, microbatches) + ranks - 1 - rank,
                delay=rank,
            )
            for rank in range(ranks)
        ]

    def in_flight(self, rank: int, ranks: int, chunks: int, microbatches: int) -> int:
        """The warm-up, one more, and what weight gradients wait for: the same on every rank."""
        return min((chunks - 1) * round_length(ranks, microbatches) + ranks, chunks * microbatches)
