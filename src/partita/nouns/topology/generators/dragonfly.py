"""Dragonfly: groups of routers that are all joined, and a cable between every two groups."""

from __future__ import annotations

import math
from itertools import combinations

from partita.ground.errors import InputError
from partita.nouns.topology.generators.generator import TopologyGenerator, blocks, by_level
from partita.nouns.topology.grammar import Option, parse_bandwidth, parse_factor
from partita.nouns.topology.topology import Link, Topology, of_machines
from partita.nouns.topology.tree import MACHINE_OPTIONS, set_machines


def dragonfly(size: tuple[int, ...], link: float, local: float, taper: float, machine: int, inside: float) -> Topology:
    """Groups × routers × devices (Kim, Dally, Scott, Abts, "Technology-Driven, Highly-Scalable Dragonfly", ISCA 2008).

    Two devices have the ``link`` of a device at one router, the smaller of it and the ``local`` one between routers in
    one group, and that between groups over the ``taper``: the bandwidth of all devices of a group over that of its
    cables to other groups. So many devices make a machine, with the bandwidth ``inside`` between two. All in bytes per
    second.
    """
    groups, routers, devices = size
    count = math.prod(size)
    router = blocks(count, devices)
    within = min(link, local)
    matrix = by_level([router, blocks(count, devices * routers)], [link, within], within / taper)
    if devices % machine:
        raise InputError(f"dragonfly: machines of {machine} devices do not fill the {devices} devices of a router")
    machine_of, own, names = set_machines(matrix, machine, inside, count + groups * routers)
    links = [Link(device, count + int(router[device]), link) for device in range(count)]
    for group in range(groups):
        first = count + group * routers
        links += [Link(first + a, first + b, local) for a, b in combinations(range(routers), 2)]
    # All cables of a group together carry what its devices have, over the taper.
    cable = routers * devices * link / taper / max(1, groups - 1)
    for a, b in combinations(range(groups), 2):
        links.append(Link(count + a * routers + (b - 1) % routers, count + b * routers + a % routers, cable))
    return of_machines(
        machine_of,
        matrix,
        links=(*links, *own),
        switches=(*(f"group {g} router {r}" for g in range(groups) for r in range(routers)), *names),
        notes=(
            "Between groups a device has its link over the taper, as if all devices talked to other groups at once; "
            "alone it may reach more.",
        ),
    )


DRAGONFLY = TopologyGenerator(
    name="dragonfly",
    summary="groups of routers that are all joined, with thinner cables between every two groups",
    example="dragonfly:9x4x4:taper=2",
    form="GROUPSxROUTERSxDEVICES",
    build=dragonfly,
    options=(
        Option("link", parse_bandwidth, "of a device to its router", "ethernet-200g"),
        Option("local", parse_bandwidth, "between two routers of a group", "ethernet-200g"),
        Option("taper", parse_factor, "bandwidth of a group's devices over that of its cables to other groups", "2"),
        *MACHINE_OPTIONS,
    ),
    least=3,
    most=3,
)
