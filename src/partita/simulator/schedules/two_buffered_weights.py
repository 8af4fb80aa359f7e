"""PipeDream-2BW: 1F1B without a flush, with two versions of the weights."""

from __future__ import annotations

from partita.simulator.schedules.one_forward_one_backward import OneForwardOneBackward


class TwoBufferedWeights(OneForwardOneBackward):
    """1F1B over an endless row of microbatches (Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training",
    ICML 2021, section 3.1).

    The weights are updated once in a batch. Two versions are enough because microbatches in flight are of two batches
    at most, which needs as many microbatches in a batch as there are ranks.
    """

    name = "2bw"
    summary = "1F1B without a flush, two weight versions: PipeDream-2BW (Narayanan et al., ICML 2021)"
    flush = False

    def weight_versions(self, in_flight: int) -> int:
        """Two, unless a microbatch goes backward before the next goes forward."""
        return min(2, in_flight)
