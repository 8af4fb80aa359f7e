"""Machines with a network between them: one alone, any two levels of bandwidth, and NVIDIA's DGX machines."""

from __future__ import annotations

from functools import partial

import numpy as np

from partita.nouns.topology.counted import counted
from partita.nouns.topology.generators.generator import TopologyGenerator, blocks, by_level
from partita.nouns.topology.grammar import Option, parse_bandwidth, parse_count
from partita.nouns.topology.topology import MAX_TOPOLOGY, Link, Topology, of_machines

#: GPUs of a DGX machine.
GPUS = 8

#: NVLinks between two GPUs, six at each GPU (NVIDIA DGX-1 With Tesla V100 System Architecture, WP-08437-002, figure 4).
CUBE_MESH = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2,
    (1, 2): 2, (1, 3): 1, (1, 5): 2,
    (2, 3): 2, (2, 6): 1,
    (3, 7): 1,
    (4, 5): 1, (4, 6): 1, (4, 7): 2,
    (5, 6): 2, (5, 7): 1,
    (6, 7): 2,
}  # fmt: skip


def flat(size: tuple[int, ...], bandwidth: float) -> Topology:
    """One machine whose devices reach each other at one bandwidth, bytes per second: what most planners assume."""
    (count,) = size
    if count > MAX_TOPOLOGY:
        return alike_machines(1, count, bandwidth, bandwidth)
    return of_machines(
        [0] * count,
        np.full((count, count), bandwidth),
        links=tuple(Link(device, count, bandwidth) for device in range(count)),
        switches=("switch",),
    )


def alike_machines(machines: int, devices: int, inside: float, outside: float) -> Topology:
    """Machines that are alike, counted; physical links of so many are not listed."""
    links = counted([(devices, inside, outside)] * machines)
    return of_machines(links.machine_of.tolist(), links)


def two_level(size: tuple[int, ...], inside: float, between: float) -> Topology:
    """Machines × devices; the bandwidths of two devices in one machine and in two, bytes per second.

    Defaults are the measured ones of four machines with four Titan V each (Liu et al., "Parmesan", appendix D.B).
    """
    machines, devices = size
    count = machines * devices
    if count > MAX_TOPOLOGY:
        return alike_machines(machines, devices, inside, between)
    machine = blocks(count, devices)
    up = [Link(device, count + number, inside) for device, number in enumerate(machine.tolist())]
    return of_machines(
        machine,
        by_level([machine], [inside], between),
        links=(*up, *(Link(count + i, count + machines, between) for i in range(machines))),
        switches=(*(f"machine{i}" for i in range(machines)), "network"),
    )


def dgx1(size: tuple[int, ...], double: float, single: float, pcie: float, network: float) -> Topology:
    """Machines; the bandwidths of two NVLinks, one NVLink, PCIe, and of a device to another machine, bytes per second.

    Eight V100 are in a cube mesh of NVLinks, with PCIe where there is none. Defaults are measured ones (Liu et al.,
    "Parmesan", appendix D.B).
    """
    (machines,) = size
    count = machines * GPUS
    machine = blocks(count, GPUS)
    rates = {1: single, 2: double}
    inside = np.full((GPUS, GPUS), pcie)
    for (a, b), links in CUBE_MESH.items():
        inside[a, b] = inside[b, a] = rates[links]
    # A device reaches its machine's card over PCIe.
    matrix = by_level([machine], [pcie], min(pcie, network))
    physical: list[Link] = []
    for first in range(0, count, GPUS):
        matrix[first : first + GPUS, first : first + GPUS] = inside
        physical += [Link(first + a, first + b, rates[links]) for (a, b), links in CUBE_MESH.items()]
        physical += [Link(first + gpu, count + first // GPUS, pcie) for gpu in range(GPUS)]
    physical += [Link(count + i, count + machines, network) for i in range(machines) if machines > 1]
    return of_machines(
        machine,
        matrix,
        links=tuple(physical),
        switches=(*(f"machine{i} PCIe" for i in range(machines)), *(["network"] if machines > 1 else [])),
        notes=(
            "The bandwidths of NVLink, PCIe and network are measured ones of rented machines (Parmesan, appendix D.B) "
            "unless stated; the network's is what one device reaches.",
        ),
    )


def dgx(size: tuple[int, ...], nvlink: float, card: float, pcie: float, cards: int, *, gpus: int = GPUS) -> Topology:
    """Machines of so many GPUs at one NVSwitch; of a GPU through it, a network card and PCIe bytes per second.

    Fewer ``cards`` of a machine than GPUs are shared: each GPU gets its part of one. Of more, a GPU uses one.
    """
    (machines,) = size
    count = machines * gpus
    outside = min(pcie, card * min(1.0, cards / gpus))
    if count > MAX_TOPOLOGY:
        return alike_machines(machines, gpus, nvlink, outside)
    machine = blocks(count, gpus)
    links: list[Link] = []
    for device, number in enumerate(machine.tolist()):
        links.append(Link(device, count + number, nvlink))
        if machines > 1:
            links.append(Link(device, count + machines + number, min(pcie, card)))
    switches = [f"machine{i} NVSwitch" for i in range(machines)]
    if machines > 1:
        links += [Link(count + machines + i, count + 2 * machines, cards * card) for i in range(machines)]
        switches += [*(f"machine{i} cards" for i in range(machines)), "network"]
    return of_machines(
        machine,
        by_level([machine], [nvlink], outside),
        links=tuple(links),
        switches=tuple(switches),
    )


FLAT = TopologyGenerator(
    name="flat",
    summary="devices at one switch, every two at the same bandwidth",
    example="flat:16:bandwidth=100Gbit/s",
    form="DEVICES",
    build=flat,
    options=(Option("bandwidth", parse_bandwidth, "between every two devices, or a link's name", "ethernet-100g"),),
    counts=True,
)
TWO_LEVEL = TopologyGenerator(
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
    counts=True,
)
DGX1 = TopologyGenerator(
    name="dgx1",
    summary="DGX-1 machines: eight V100 in a cube mesh of single and double NVLinks, PCIe elsewhere, a network between",
    example="dgx1:4:network=infiniband-hdr",
    form="MACHINES",
    build=dgx1,
    options=(
        Option("double", parse_bandwidth, "of two NVLinks", "43.2GB/s"),
        Option("single", parse_bandwidth, "of one NVLink", "21.4GB/s"),
        Option("pcie", parse_bandwidth, "between GPUs of one machine without NVLink", "10.1GB/s"),
        Option("network", parse_bandwidth, "of a device to another machine, at most PCIe", "1.4GB/s"),
    ),
    per_unit=GPUS,
    device="V100-32GB",
    alias="dgx-1",
)


def _options(nvlink: str, card: str, pcie: str, cards: int = GPUS) -> tuple[Option, ...]:
    return (
        Option("nvlink", parse_bandwidth, "of a GPU through the NVSwitch", nvlink),
        Option("card", parse_bandwidth, "of one network card", card),
        Option("pcie", parse_bandwidth, "of a GPU to its card", pcie),
        Option("cards", parse_count, "network cards of a machine", str(cards)),
    )


_with_nvswitch = partial(TopologyGenerator, form="MACHINES", build=dgx, per_unit=GPUS, counts=True)

# NVIDIA DGX A100 System Architecture white paper (WP-10083), DGX H100 user guide: eight compute cards each.
DGX_A100 = _with_nvswitch(
    name="dgx-a100",
    summary="DGX A100 machines: eight A100 at an NVSwitch, a 200 Gbit/s card for each",
    example="dgx-a100:4:cards=4",
    options=_options("nvlink3", "infiniband-hdr", "pcie4"),
    device="A100-80GB",
)
DGX_H100 = _with_nvswitch(
    name="dgx-h100",
    summary="DGX H100 machines: eight H100 at an NVSwitch, a 400 Gbit/s card for each",
    example="dgx-h100:2",
    options=_options("nvlink4", "infiniband-ndr", "pcie5"),
    device="H100-80GB",
)

_nvl72 = partial(
    TopologyGenerator,
    form="RACKS",
    build=partial(dgx, gpus=72),
    per_unit=72,
    options=_options("nvlink5", "infiniband-ndr", "nvlink-c2c", 72),
    counts=True,
)

# NVIDIA GB200 NVL72 and GB300 NVL72 data sheets: 72 GPUs in one NVLink domain, a card for each.
GB200_NVL72 = _nvl72(
    name="gb200-nvl72",
    summary="racks of 72 GB200 in one NVLink domain, a 400 Gbit/s card for each",
    example="gb200-nvl72:2",
    device="GB200",
)
GB300_NVL72 = _nvl72(
    name="gb300-nvl72",
    summary="racks of 72 GB300 in one NVLink domain, a card for each, 400 Gbit/s unless stated",
    example="gb300-nvl72:2:card=100GB/s",
    device="GB300",
)
