"""Trees of switches with devices at the leaves: the lowest switch over two devices says what passes between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from partita.ground.errors import InputError
from partita.nouns.topology.grammar import Option, parse_bandwidth, parse_count, parse_factor
from partita.nouns.topology.topology import Floats, Link, Topology, of_machines

#: How devices share machines in networks of switches.
MACHINE_OPTIONS = (
    Option("machine", parse_count, "devices of a machine", "1"),
    Option("inside", parse_bandwidth, "between two devices of one machine", "nvlink3"),
)
OVERSUBSCRIPTION = Option(
    "oversubscription", parse_factor, "what comes up to a switch over what leaves it upwards", "1"
)


@dataclass(frozen=True)
class Switch:
    """A switch with switches below it, or a number of devices."""

    name: str
    below: tuple[Switch, ...] = ()
    devices: int = 0

    @property
    def height(self) -> int:
        """Levels of switches below."""
        return 1 + max((other.height for other in self.below), default=-1)

    @property
    def count(self) -> int:
        """Devices at all switches below, and its own."""
        return self.devices + sum(other.count for other in self.below)

    def walk(self) -> Iterator[Switch]:
        """All switches, those above first."""
        yield self
        for other in self.below:
            yield from other.walk()


def tree_topology(
    where: str, root: Switch, oversubscription: float, link: float, machine: int, inside: float
) -> Topology:
    """Devices in the order in which the tree below a root is walked, so many in a machine; ``where`` is for messages.

    A pair of devices has what each would have if all devices used the lowest switch over both at once: the link of a
    device at a leaf, that over the oversubscription (what comes up to a switch over what leaves it upwards) one level
    up, and so on; two of one machine have ``inside``. Physical links are whole bundles. Raises ``InputError`` if the
    machines do not fill the devices of a switch.
    """
    count = root.count
    matrix = np.full((count, count), link)
    number = {id(switch): count + i for i, switch in enumerate(root.walk())}
    links: list[Link] = []

    def hang(switch: Switch, first: int) -> None:
        share = link / oversubscription**switch.height
        last = first + switch.count
        matrix[first:last, first:last] = share
        for other in switch.below:
            hang(other, first)
            # What a device below has of the bandwidth that leaves the switch upwards.
            up = link / oversubscription ** (other.height + 1)
            links.append(Link(number[id(other)], number[id(switch)], other.count * up))
            first += other.count
        if switch.devices % machine:
            raise InputError(
                f"{where}: machines of {machine} devices do not fill the {switch.devices} devices of {switch.name}"
            )
        links.extend(Link(device, number[id(switch)], link) for device in range(first, last))

    hang(root, 0)
    machine_of, own, names = set_machines(matrix, machine, inside, count + len(number))
    return of_machines(
        machine_of,
        matrix,
        name=where,
        links=(*links, *own),
        switches=(*(switch.name for switch in root.walk()), *names),
        notes=(
            "A pair of devices is given its share of the switches on its way while all devices use them; "
            "alone it may reach more.",
        ),
    )


def set_machines(
    matrix: Floats, machine: int, inside: float, first: int
) -> tuple[tuple[int, ...], list[Link], list[str]]:
    """Set the bandwidth inside machines of so many devices, in order.

    Returns
    -------
    tuple
        The machine of every device, the links inside machines, and the names of the switches there, one for each
        machine; these are numbered from ``first`` on.
    """
    machines = np.arange(len(matrix)) // machine
    machine_of = tuple(machines.tolist())
    if machine == 1:
        return machine_of, [], []
    matrix[machines[:, None] == machines[None, :]] = inside
    links = [Link(device, first + number, inside) for device, number in enumerate(machine_of)]
    return machine_of, links, [f"machine{number}" for number in range(machine_of[-1] + 1)]
