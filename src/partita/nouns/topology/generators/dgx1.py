"""DGX-1 machines: eight V100 in a cube mesh of NVLinks, PCIe where there is none."""

from __future__ import annotations

import numpy as np

from partita.nouns.topology.generators.generator import Generator
from partita.nouns.topology.generators.levels import blocks, by_level
from partita.nouns.topology.grammar import Option
from partita.nouns.topology.topology import Link, Topology, device_names
from partita.nouns.topology.values import parse_bandwidth

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

GPUS = 8


def dgx1(size: tuple[int, ...], double: float, single: float, pcie: float, network: float) -> Topology:
    """Machines; the bandwidths of two NVLinks, one NVLink, PCIe, and of a device to another machine, bytes per second.

    Defaults are measured ones (Liu et al., "Parmesan", appendix D.B).
    """
    (machines,) = size
    count = machines * GPUS
    machine = blocks(count, GPUS)
    machine_of = tuple(machine.tolist())
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
    return Topology(
        name="dgx1",
        names=device_names(machine_of),
        bandwidth_bytes_per_s=matrix,
        machine_of=machine_of,
        links=tuple(physical),
        switches=(*(f"machine{i} PCIe" for i in range(machines)), *(["network"] if machines > 1 else [])),
        notes=(
            "The bandwidths of NVLink, PCIe and network are measured ones of rented machines (Parmesan, appendix D.B) "
            "unless stated; the network's is what one device reaches.",
        ),
    )


DGX1 = Generator(
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
