"""Devices of unlike speeds and links of unlike bandwidths, as random makespan problems have them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.ground.errors import InputError
from partita.problems.makespan.problem import Device
from partita.problems.settings import setting

#: What such problems are asked for.
Seed = Annotated[int, setting("Same seed, same problem.", metavar="N", least=0)]
Devices = Annotated[int, setting("Of unlike speeds.", metavar="N", least=1)]
Communication = Annotated[
    float, setting("Mean time of a flow by that of an operator on the fastest device.", metavar="X", least=0)
]
Room = Annotated[
    float | None,
    setting("Memory of all devices by what operators need; no limits if not given.", metavar="X", above=0),
]

#: The fastest device is up to this much faster than the slowest, the widest link wider than the narrowest.
SPEEDS, BANDWIDTHS = 4.0, 4.0
#: Deviation of the logarithm of how well a device suits an operator.
SUITS = 0.25
#: Times are whole numbers of this many decimals, and the mean time of an operator on the fastest device.
DECIMALS, MEAN_TIME = 3, 1.0


def check_links_and_room(communication: float, room: float | None) -> None:
    """Refuse settings out of range."""
    if not 0 <= communication < math.inf:
        raise InputError(f"communication is {communication}; it must be finite and not negative")
    if room is not None and not 0 < room < math.inf:
        raise InputError(f"room is {room}; it must be finite and more than 0")


def slowness_of(rng: np.random.Generator, devices: int) -> Floats:
    """(D,) What the fastest device, which is first, has 1 of."""
    slowness = np.sort(SPEEDS ** rng.random(devices))
    found: Floats = slowness / slowness[0]
    return found


def narrowness_of(rng: np.random.Generator, devices: int) -> Floats:
    """(D, D) Time of a unit between devices: 0 within one, 1 in the mean of the others."""
    narrowness = BANDWIDTHS ** rng.random((devices, devices))
    np.fill_diagonal(narrowness, 0.0)
    found: Floats = narrowness / max(narrowness.sum() / max(1, devices * (devices - 1)), 1e-9)
    return found


def limits_of(held: Floats, slowness: Floats, room: float | None) -> list[float | None]:
    """Memory of every device: ``room`` times all that is held, less of it where devices are fast; None for no limit."""
    if room is None:
        return [None] * len(slowness)
    share = slowness**0.5 / (slowness**0.5).sum()
    limits: list[float | None] = np.ceil(room * held.sum() * share).tolist()
    return limits


def devices_with(limits: Sequence[float | None]) -> tuple[Device, ...]:
    """Devices with these limits on their memory, named by their numbers."""
    return tuple(Device(name=f"device {d}", memory=limit) for d, limit in enumerate(limits))


def tables_of(moved: Floats, narrowness: Floats) -> list[tuple[tuple[float, ...], ...]]:
    """Times of flows between devices, for each of (n,) times in the mean."""
    return [tuple(map(tuple, np.round(mean * narrowness, DECIMALS).tolist())) for mean in moved.tolist()]
