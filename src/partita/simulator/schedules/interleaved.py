"""Interleaved 1F1B: several stages on each rank shorten the warm-up."""

from __future__ import annotations

from partita.simulator.schedules.phases import one_each
from partita.simulator.schedules.protocol import Action
from partita.simulator.schedules.rounds import InRounds, backward_units, forward_units, round_length


class Interleaved(InRounds):
    """1F1B in which the chain of ranks is gone through several times (Narayanan et al., SC 2021, section 2.2).

    With v equal stages on each of S ranks, no communication, and M a multiple of S, the step takes
    (M · v + S − 1) · (f + b) / v, where f and b are a rank's times for a microbatch in all its stages.
    """

    name = "interleaved"
    summary = "1F1B with several stages on each rank (Megatron-LM: Narayanan et al., SC 2021)"

    def orders(self, ranks: int, chunks: int, microbatches: int) -> list[list[Action]]:
        """Round by round in turn, after a warm-up that is two actions longer for each rank before the last."""
        return [
            one_each(
                forward_units(rank, ranks, chunks, microbatches),
                backward_units(rank, ranks, chunks, microbatches),
                warm_up(rank, ranks, chunks, microbatches),
            )
            for rank in range(ranks)
        ]

    def in_flight(self, rank: int, ranks: int, chunks: int, microbatches: int) -> int:
        """The warm-up and one more."""
        return min(warm_up(rank, ranks, chunks, microbatches) + 1, chunks * microbatches)


def warm_up(rank: int, ranks: int, chunks: int, microbatches: int) -> int:
    """Forward actions before forward and backward take turns; all of them if there are fewer."""
    return (chunks - 1) * round_length(ranks, microbatches) + 2 * (ranks - 1 - rank)
