"""Links of machines that are counted: what passes between two devices follows from which machines they are in.

Machines that are alike are one entry with a count, so that a hundred thousand devices take no more room than eight: no
matrix is made. Two devices of one machine have what the machine has inside; of two machines, each end has what it
reaches outside, and the slower end decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from partita.nouns.machines import AlikeMachines, MachineCounts

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class CountedLinks(MachineCounts):
    """Bytes per second between every two devices of counted machines; it is indexed as a matrix would be.

    ``links[sources, targets]`` takes numbers or arrays of them, which are broadcast; infinite from a device to itself.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix that is not made."""
        return self.device_count, self.device_count

    @cached_property
    def entry_of(self) -> Integers:
        """(D,) The entry of ``machines`` that every device is in."""
        sizes = [entry.count * entry.devices for entry in self.machines]
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def machine_of(self) -> Integers:
        """(D,) The machine of every device: 0, 1, … in order."""
        sizes = np.repeat([entry.devices for entry in self.machines], [entry.count for entry in self.machines])
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def _reach(self) -> tuple[Floats, Floats]:
        """(D,) What every device reaches inside its machine and outside."""
        inside = np.array([entry.inside_bytes_per_s for entry in self.machines])
        outside = np.array([entry.outside_bytes_per_s for entry in self.machines])
        return inside[self.entry_of], outside[self.entry_of]

    def __getitem__(self, pair: tuple[Any, Any]) -> Any:
        inside, outside = self._reach
        sources, targets = np.asarray(pair[0]), np.asarray(pair[1])
        together = self.machine_of[sources] == self.machine_of[targets]
        found = np.where(together, inside[sources], np.minimum(outside[sources], outside[targets]))
        return np.where(sources == targets, np.inf, found)

    def matrix(self) -> Floats:
        """[device, device] all of them; infinite on the diagonal."""
        every = np.arange(self.device_count)
        found: Floats = self[every[:, None], every[None, :]]
        return found


def counted(machines: Iterable[tuple[int, float, float]]) -> CountedLinks:
    """Machines in order, each as its devices and what these reach inside and outside; those that are alike as one."""
    found: list[AlikeMachines] = []
    for devices, inside, outside in machines:
        like = AlikeMachines(count=1, devices=devices, inside_bytes_per_s=inside, outside_bytes_per_s=outside)
        if found and msgspec.structs.replace(found[-1], count=1) == like:
            found[-1] = msgspec.structs.replace(found[-1], count=found[-1].count + 1)
        else:
            found.append(like)
    return CountedLinks(tuple(found))
