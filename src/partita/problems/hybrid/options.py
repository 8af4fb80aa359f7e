"""What can be asked of a hybrid plan: one declaration for keywords, flags and settings."""

from __future__ import annotations

from partita.problems.kind import SearchOptions

__all__ = ["Options"]


class Options(SearchOptions, frozen=True, kw_only=True):
    """What a search may use.

    Attributes
    ----------
    machine_devices
        Devices of one machine, for baselines that keep tensor parallelism inside; unless stated those of the problem's
        hierarchy, and without one 8.
    """

    machine_devices: int | None = None
