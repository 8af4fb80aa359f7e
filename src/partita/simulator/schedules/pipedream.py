"""PipeDream: 1F1B without a flush, with the weights that every microbatch in flight began with."""

from __future__ import annotations

from partita.simulator.schedules.one_forward_one_backward import OneForwardOneBackward


class PipeDream(OneForwardOneBackward):
    """1F1B over endless microbatches with weight stashing (Narayanan et al., SOSP 2019, sections 3.2, 3.3).

    Every microbatch updates the weights, so a rank keeps one version for each microbatch that it holds.
    """

    name = "pipedream"
    summary = "1F1B without a flush, one weight version per microbatch in flight (Narayanan et al., SOSP 2019)"
    flush = False

    def weight_versions(self, in_flight: int) -> int:
        """One for each microbatch in flight."""
        return in_flight
