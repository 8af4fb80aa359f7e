"""DGX machines with an NVSwitch: every two GPUs at full NVLink speed, network cards for each."""

from __future__ import annotations

from functools import partial

from partita.nouns.topology.generators.generator import Generator
from partita.nouns.topology.generators.levels import blocks, by_level
from partita.nouns.topology.grammar import Option
from partita.nouns.topology.topology import Link, Topology, device_names
from partita.nouns.topology.values import parse_bandwidth, parse_count

GPUS = 8


def dgx(size: tuple[int, ...], nvlink: float, card: float, pcie: float, cards: int) -> Topology:
    """Machines of eight GPUs at one NVSwitch.

    Parameters
    ----------
    size
        Number of machines.
    nvlink, card, pcie
        What one GPU reaches through the NVSwitch, what one network card carries, and what a GPU's PCIe does, bytes
        per second.
    cards
        Network cards of a machine. Fewer than GPUs share a card: each gets its part of it. Of more, a GPU uses one.
    """
    (machines,) = size
    count = machines * GPUS
    machine = blocks(count, GPUS)
    machine_of = tuple(machine.tolist())
    between = min(pcie, card * min(1.0, cards / GPUS))
    network = count + 2 * machines
    links: list[Link] = []
    for device in range(count):
        links += [Link(device, count + machine_of[device], nvlink)]
        if machines > 1:
            links += [Link(device, count + machines + machine_of[device], min(pcie, card))]
    if machines > 1:
        links += [Link(count + machines + i, network, cards * card) for i in range(machines)]
    switches = [f"machine{i} NVSwitch" for i in range(machines)]
    if machines > 1:
        switches += [*(f"machine{i} cards" for i in range(machines)), "network"]
    return Topology(
        name="dgx",
        names=device_names(machine_of),
        bandwidth_bytes_per_s=by_level([machine], [nvlink], between),
        machine_of=machine_of,
        links=tuple(links),
        switches=tuple(switches),
    )


def _options(nvlink: str, card: str, pcie: str) -> tuple[Option, ...]:
    return (
        Option("nvlink", parse_bandwidth, "of a GPU through the NVSwitch", nvlink),
        Option("card", parse_bandwidth, "of one network card", card),
        Option("pcie", parse_bandwidth, "of a GPU to its card", pcie),
        Option("cards", parse_count, "network cards of a machine", "8"),
    )


_machines = partial(Generator, form="MACHINES", build=dgx, per_unit=GPUS)

# NVIDIA DGX A100 System Architecture white paper (WP-10083), DGX H100 user guide: eight compute cards each.
DGX_A100 = _machines(
    name="dgx-a100",
    summary="DGX A100 machines: eight A100 at an NVSwitch, a 200 Gbit/s card for each",
    example="dgx-a100:4:cards=4",
    options=_options("nvlink3", "infiniband-hdr", "pcie4"),
    device="A100-80GB",
)
DGX_H100 = _machines(
    name="dgx-h100",
    summary="DGX H100 machines: eight H100 at an NVSwitch, a 400 Gbit/s card for each",
    example="dgx-h100:2",
    options=_options("nvlink4", "infiniband-ndr", "pcie5"),
    device="H100-80GB",
)
