"""PipeDream-2BW: 1F1B without a flush, with two versions of the weights."""

from __future__ import annotations

from partita.simulator.schedules.one_forward_one_backward import OneForwardOneBackward


class TwoBufferedWeights(OneForwardOneBackward):
    """1F1B over an endless stream of microbatches (Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training",
    ICML 2021, section 3.1).

    The weights are updated once in a batch. Two versions are enough because microbatches in flight are of two batches
    at most, which needs as many microbatches in a batch as there are ranks.
    """

    name = "2bw"
    summary = "1F1B without a flush, two weight versions: PipeDream-2BW (Narayanan et al., ICML 2021)"
    flush = False

    def refusal(self, ranks: int, chunks: int, microbatches: int) -> str | None:
        """It needs one stage on each rank, and as many microbatches as ranks."""
        found = super().refusal(ranks, chunks, microbatches)
        if found is not None or microbatches >= ranks:
            return found
        return (
            f"schedule {self.name} has two versions of the weights, enough for batches of as many microbatches as "
            f"ranks; use {ranks} or more microbatches, or schedule pipedream"
        )

    def weight_versions(self, in_flight: int) -> int:
        """Two, unless a microbatch goes backward before the next goes forward."""
        return min(2, in_flight)
