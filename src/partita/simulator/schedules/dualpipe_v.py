"""DualPipeV: a forward of one microbatch with a backward of another, on a V of stages."""

from __future__ import annotations

from partita.simulator.schedules.protocol import Action
from partita.simulator.schedules.v_shape import RankOrder, VShape


class DualPipeV(VShape):
    """DualPipe (DeepSeek-AI, "DeepSeek-V3 Technical Report", arXiv 2412.19437, section 3.2.1) cut in half, as in torch.

    Where DualPipeV runs a forward and a backward action at once, they run here one after the other, forward first:
    what overlaps in them is communication, which the order of a rank does not say.
    """

    name = "dualpipe-v"
    summary = "forward and backward in pairs on a V of two stages per rank: DualPipeV (DeepSeek-AI, 2024)"

    def refusal(self, ranks: int, chunks: int, microbatches: int) -> str | None:
        """It needs two stages on each rank, and as many microbatches as stages."""
        if (refusal := super().refusal(ranks, chunks, microbatches)) or microbatches >= 2 * ranks:
            return refusal
        return (
            f"schedule {self.name} needs at least as many microbatches as stages, and there are {microbatches} "
            f"microbatches and {2 * ranks} stages; use {2 * ranks} or more microbatches, or schedule zero-bubble-v"
        )

    def orders(self, ranks: int, chunks: int, microbatches: int) -> list[list[Action]]:
        """Warm-up, pairs, and a drain whose second half splits the backward."""
        return [self._order(rank, ranks, microbatches) for rank in range(ranks)]

    def _order(self, rank: int, ranks: int, microbatches: int) -> list[Action]:
        """The order of a rank."""
        after = ranks - 1 - rank
        row = RankOrder(rank, ranks)
        row.add("F0", 2 * after)
        row.add("F0 F1", rank + 1)
        row.add("I1 W F1", after)
        row.add("F0 B1 F1 B0", microbatches - 2 * ranks + rank + 1)
        row.add("B1 F1 B0", after)
        # The last 2 · (rank + 1) backward actions alternate between the chunks; the second half of them is split.
        for place in range(2 * (rank + 1)):
            row.add(f"{'B' if place <= rank else 'I'}{1 - place % 2}")
        row.add("W I0", after)
        row.add("W", rank + 1)
        return row.order

    def in_flight(self, rank: int, ranks: int, chunks: int, microbatches: int) -> int:
        """As many as there are stages, and one more in a pair, whose forward action comes first."""
        return 2 * ranks + 1
