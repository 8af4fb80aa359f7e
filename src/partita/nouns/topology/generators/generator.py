"""What a generator of topologies is, and bandwidths by level: the innermost group that holds two devices joins them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from partita.nouns.catalogue.shortform import MAX_DEVICES
from partita.nouns.topology.grammar import DEVICE, Option, parse_size, read_options
from partita.nouns.topology.topology import MAX_TOPOLOGY, Floats, Topology, check_count

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TopologyGenerator:
    """A family of topologies."""

    name: str  #: Before the first colon of a short form.
    summary: str  #: One line for ``partita topologies``.
    example: str  #: A short form of the family.
    form: str  #: What the size means: ``ROWSxCOLUMNS``.
    #: Called with the size's numbers and, by keyword, the options; returns the topology, whose name the caller sets.
    build: Callable[..., Topology]
    options: tuple[Option, ...] = ()  #: Beside ``device``, which every family takes.
    #: Numbers of a size.
    least: int = 1
    most: int = 1
    per_unit: int = 1  #: Devices for each unit of the product of the size.
    device: str | None = None  #: What its devices are unless stated; None where that is open.
    alias: str = ""  #: Another name; empty for none.
    counts: bool = False  #: Whether ``build`` counts machines where there are too many devices for a matrix.

    def make(self, where: str, size: str, given: tuple[tuple[str, str], ...]) -> Topology:
        """The topology of a short form's parts; ``where`` is the whole, its name."""
        numbers = parse_size(where, size, self.least, self.most, f"{self.name}:{self.form}")
        count = math.prod(numbers) * self.per_unit
        check_count(where, count, MAX_DEVICES if self.counts else MAX_TOPOLOGY)
        values = read_options(where, given, (*self.options, DEVICE))
        device = values.pop("device") or self.device
        found = replace(self.build(numbers, **values), name=where)
        return found if device is None else found.with_device(device)


def by_level(groups: Sequence[Integers], bandwidths: Sequence[float], outermost: float) -> Floats:
    """Bandwidth between every two devices, bytes per second.

    Groups are given innermost level first, as the group of every device; with them the bandwidth of two devices in one
    group of each level, and of two that no group holds.
    """
    count = len(groups[0])
    matrix = np.full((count, count), outermost)
    for group, bandwidth in zip(reversed(groups), reversed(bandwidths), strict=True):
        matrix[np.equal.outer(group, group)] = bandwidth
    return matrix


def blocks(count: int, size: int) -> Integers:
    """Devices in groups of one size, in order: the group of each."""
    return np.arange(count, dtype=np.int64) // size
