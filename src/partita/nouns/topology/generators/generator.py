"""What a generator of topologies is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from partita.nouns.topology.grammar import DEVICE, Option, parse_size, read_options
from partita.nouns.topology.topology import Topology, check_count


@dataclass(frozen=True)
class Generator:
    """A family of topologies.

    Attributes
    ----------
    name
        Before the first colon of a short form.
    summary
        One line for ``partita topologies``.
    example
        A short form of the family.
    form
        What the size means: ``ROWSxCOLUMNS``.
    build
        Called with the size's numbers and, by keyword, the options; returns the topology, whose name the caller sets.
    options
        Beside ``device``, which every family takes.
    least, most
        Numbers of a size.
    per_unit
        Devices for each unit of the product of the size.
    device
        What its devices are unless stated; None where that is open.
    alias
        Another name; empty for none.
    """

    name: str
    summary: str
    example: str
    form: str
    build: Callable[..., Topology]
    options: tuple[Option, ...] = ()
    least: int = 1
    most: int = 1
    per_unit: int = 1
    device: str | None = None
    alias: str = ""

    def make(self, where: str, size: str, given: tuple[tuple[str, str], ...]) -> Topology:
        """The topology of a short form's parts; ``where`` is the whole, its name."""
        numbers = parse_size(where, size, self.least, self.most, f"{self.name}:{self.form}")
        check_count(where, math.prod(numbers) * self.per_unit)
        values = read_options(where, given, (*self.options, DEVICE))
        device = values.pop("device") or self.device
        found = replace(self.build(numbers, **values), name=where)
        return found if device is None else found.with_device(device)
