"""A mapping: the device of every replica."""

from __future__ import annotations

import msgspec


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Which device runs what.

    Attributes
    ----------
    placement
        By stage, then by replica, the number of the device.
    """

    placement: tuple[tuple[int, ...], ...]
