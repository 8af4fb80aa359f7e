"""ZB-V: zero bubble with the memory of 1F1B, on a V of stages."""

from __future__ import annotations

from partita.simulator.schedules.protocol import Action
from partita.simulator.schedules.v_shape import RankOrder, VShape


class ZeroBubbleV(VShape):
    """ZB-V (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 6), as torch has it.

    There is no bubble where forward, input gradient and weight gradient take the same time. With fewer than 2p − 1
    microbatches it is the order for 2p − 1 without the actions of those that there are not.
    """

    name = "zero-bubble-v"
    summary = "split backward on a V of two stages per rank: ZB-V (Qi et al., ICLR 2024)"

    def orders(self, ranks: int, chunks: int, microbatches: int) -> list[list[Action]]:
        """Warm-up, both chunks in turn, and a drain that the weight gradients fill."""
        full = max(microbatches, 2 * ranks - 1)
        orders = [self._order(rank, ranks, full) for rank in range(ranks)]
        return [[action for action in order if action.microbatch < microbatches] for order in orders]

    def _order(self, rank: int, ranks: int, microbatches: int) -> list[Action]:
        """The order of a rank for enough microbatches."""
        behind = ranks - rank
        row = RankOrder(rank, ranks)
        row.add("F0", 2 * behind - 1)
        row.add("F1 F0", rank)
        row.add("F1 I1 W1", behind)
        row.add("F0 I0 W0 F1 I1 W1", microbatches - 2 * ranks + rank + 1)
        row.add("I0 W0 F1 I1 W1", behind - 1)
        row.add("I0 I1", rank)
        row.add("I0 W0", behind)
        row.add("W1", rank)
        row.add("W0", rank)
        return row.order

    def in_flight(self, rank: int, ranks: int, chunks: int, microbatches: int) -> int:
        """Of chunk 0 those of the warm-up, of chunk 1 those that came back: together as many as there are stages."""
        return min(2 * ranks - 1 - rank, microbatches) + min(rank + 1, microbatches)
