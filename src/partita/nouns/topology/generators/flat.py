"""All devices at one switch: what most planners assume."""

from __future__ import annotations

import numpy as np

from partita.nouns.topology.generators.generator import Generator
from partita.nouns.topology.grammar import Option
from partita.nouns.topology.topology import Link, Topology, device_names
from partita.nouns.topology.values import parse_bandwidth


def flat(size: tuple[int, ...], bandwidth: float) -> Topology:
    """One machine whose devices reach each other at one bandwidth, bytes per second."""
    (count,) = size
    machine_of = (0,) * count
    return Topology(
        name="flat",
        names=device_names(machine_of),
        bandwidth_bytes_per_s=np.full((count, count), bandwidth),
        machine_of=machine_of,
        links=tuple(Link(device, count, bandwidth) for device in range(count)),
        switches=("switch",),
    )


FLAT = Generator(
    name="flat",
    summary="devices at one switch, every two at the same bandwidth",
    example="flat:16:bandwidth=100Gbit/s",
    form="DEVICES",
    build=flat,
    options=(Option("bandwidth", parse_bandwidth, "between every two devices, or a link's name", "ethernet-100g"),),
)
