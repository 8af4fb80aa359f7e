"""Machines that are counted: those that are alike are one entry, so that many take no more room than few."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import msgspec

from partita.ground.checks import check_at_least, check_positive


class AlikeMachines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Machines one after the other that are alike, each with devices that are alike."""

    count: int  #: Of machines.
    devices: int  #: Of each machine.
    inside_bytes_per_s: float  #: Between two devices of one machine.
    #: Between a device and one of another machine, which may reach less itself: the smaller of both counts.
    outside_bytes_per_s: float

    def check(self, where: str) -> None:
        """Raise ``InputError`` if a number is not positive or not finite."""
        check_at_least(f"{where}: count", self.count)
        check_at_least(f"{where}: devices", self.devices)
        check_positive(where, "inside_bytes_per_s", self.inside_bytes_per_s)
        check_positive(where, "outside_bytes_per_s", self.outside_bytes_per_s)


@dataclass(frozen=True)
class MachineCounts:
    """Counted machines, and what passes between two of their devices, which are numbered through all of them."""

    machines: tuple[AlikeMachines, ...]  #: In the order of their devices.

    @property
    def device_count(self) -> int:
        """All devices."""
        return sum(entry.count * entry.devices for entry in self.machines)

    @cached_property
    def _spans(self) -> tuple[tuple[int, int, int, AlikeMachines], ...]:
        """Of every entry the first device, the first one behind it, its first machine, and itself."""
        found, device, machine = [], 0, 0
        for entry in self.machines:
            behind = device + entry.count * entry.devices
            found.append((device, behind, machine, entry))
            device, machine = behind, machine + entry.count
        return tuple(found)

    def home(self, device: int) -> tuple[int, int, AlikeMachines]:
        """The machine of a device, its number there, and the entry."""
        for first, behind, machine, entry in self._spans:
            if device < behind:
                number, place = divmod(device - first, entry.devices)
                return machine + number, place, entry
        raise IndexError(device)

    def link(self, source: int, target: int) -> float:
        """Bytes per second of one pair."""
        if source == target:
            return math.inf
        (a, _, one), (b, _, other) = self.home(source), self.home(target)
        return one.inside_bytes_per_s if a == b else min(one.outside_bytes_per_s, other.outside_bytes_per_s)

    def pairs(self) -> Counter[float]:
        """How many ordered pairs of devices have each bandwidth."""
        found: Counter[float] = Counter()
        for number, entry in enumerate(self.machines):
            size = entry.count * entry.devices
            found[entry.inside_bytes_per_s] += size * (entry.devices - 1)
            found[entry.outside_bytes_per_s] += size * (size - entry.devices)
            for other in self.machines[:number]:
                slower = min(entry.outside_bytes_per_s, other.outside_bytes_per_s)
                found[slower] += 2 * size * other.count * other.devices
        return +found

    def fastest(self) -> tuple[float, float]:
        """Bytes per second of the fastest link inside a machine and between two; 0 where there is none."""
        inside = [entry.inside_bytes_per_s for entry in self.machines if entry.devices > 1]
        # Of the two machines that reach most.
        reached = sorted(entry.outside_bytes_per_s for entry in self.machines for _ in range(min(2, entry.count)))
        return max(inside, default=0.0), reached[-2] if len(reached) > 1 else 0.0
