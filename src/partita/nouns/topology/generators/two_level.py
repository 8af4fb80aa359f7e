"""Machines with a link inside and a network between them."""

from __future__ import annotations

from partita.nouns.topology.generators.generator import Generator
from partita.nouns.topology.generators.levels import blocks, by_level
from partita.nouns.topology.grammar import Option
from partita.nouns.topology.topology import Link, Topology, device_names
from partita.nouns.topology.values import parse_bandwidth


def two_level(size: tuple[int, ...], inside: float, between: float) -> Topology:
    """Machines × devices; the bandwidths of two devices in one machine and in two, bytes per second.

    Defaults are the measured ones of four machines with four Titan V each (Liu et al., "Parmesan", appendix D.B).
    """
    machines, devices = size
    count = machines * devices
    machine = blocks(count, devices)
    machine_of = tuple(machine.tolist())
    network = count + machines
    up = [Link(device, count + machine_of[device], inside) for device in range(count)]
    return Topology(
        name="two-level",
        names=device_names(machine_of),
        bandwidth_bytes_per_s=by_level([machine], [inside], between),
        machine_of=machine_of,
        links=(*up, *(Link(count + i, network, between) for i in range(machines))),
        switches=(*(f"machine{i}" for i in range(machines)), "network"),
    )


TWO_LEVEL = Generator(
    name="two-level",
    summary="machines with a link inside and a slower network between them",
    example="two-level:4x4:inside=11GB/s:between=1.1GB/s",
    form="MACHINESxDEVICES",
    build=two_level,
    options=(
        Option("inside", parse_bandwidth, "between two devices of one machine", "11GB/s"),
        Option("between", parse_bandwidth, "between two machines", "1.1GB/s"),
    ),
    least=2,
    most=2,
)
