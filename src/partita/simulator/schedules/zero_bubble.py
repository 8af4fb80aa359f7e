"""ZB-H1: weight gradients wait until there is nothing more urgent."""

from __future__ import annotations

from partita.simulator.schedules.phases import split_each
from partita.simulator.schedules.protocol import Action, Schedule


class ZeroBubbleH1(Schedule):
    """ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 2.1): 1F1B with a split backward.

    Rank i runs p − i microbatches forward before the first goes backward, as in 1F1B, and is i weight gradients behind
    its input gradients, so that every rank holds p microbatches, as 1F1B's first rank does. What it is behind fills the
    drain. With equal stages, no communication and f = b = w the step takes M · (f + b + w) + (p − 1) · (f + b − w).

    It is never slower than 1F1B with a backward of b + w, whatever f, b and w are. Let T = f + b + w. Input gradient j
    of rank i may start at p · f + (p − 1 − i) · b + j · T, the forward action before it f earlier, and the weight
    gradient after it as it ends: what each waits for has then ended, so that none starts later. Rank i ends at
    M · T + (p − 1) · f + (p − 1 − i) · b + i · w, and 1F1B at (M + p − 1) · T.
    """

    name = "zero-bubble"
    summary = "1F1B whose weight gradients fill the drain: ZB-H1 (Qi et al., ICLR 2024)"
    splits_backward = True

    def orders(self, ranks: int, chunks: int, microbatches: int) -> list[list[Action]]:
        """A warm-up as in 1F1B, and weight gradients as many places late as there are ranks before."""
        units = [[(rank, microbatch) for microbatch in range(microbatches)] for rank in range(ranks)]
        return [split_each(own, own, ranks - 1 - rank, delay=rank) for rank, own in enumerate(units)]

    def in_flight(self, rank: int, ranks: int, chunks: int, microbatches: int) -> int:
        """As many as there are ranks, on every rank."""
        return min(ranks, microbatches)
