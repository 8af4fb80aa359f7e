"""What files about one machine have in common: what devices are called, links inside, and other machines like it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.cluster import DEFAULT_NETWORK
from partita.nouns.topology.figures import USUAL_SOCKET, capability_of, nvlink_of, pcie_of
from partita.nouns.topology.grammar import Option, parse_bandwidth, parse_count
from partita.nouns.topology.importers.importer import TextFile
from partita.nouns.topology.topology import Floats, Link, Topology, check_count

#: Of every format that describes one machine.
MACHINE_OPTIONS = (
    Option("machines", parse_count, "number of machines like the one of the file; 1 unless stated"),
    Option("network", parse_bandwidth, "of a device to another machine"),
    Option("nvlink", parse_bandwidth, "of one NVLink in one direction"),
    Option("pcie", parse_bandwidth, "of PCIe, where the file does not say it"),
    Option("socket", parse_bandwidth, "between two sockets"),
)


#: Patterns of what is left of a driver's name without its vendor; the first that matches says the device.
_MODELS = tuple(
    (re.compile(pattern, re.IGNORECASE), device)
    for pattern, device in (
        (r"A100-SXM\d?-40GB", "A100-40GB"),
        (r"A100-SXM\d?-80GB", "A100-80GB"),
        (r"A100[- ](80GB[- ]PCIe|PCIe[- ]80GB)", "A100-80GB-PCIE"),
        (r"H100( 80GB HBM3|-SXM5-80GB)", "H100-80GB"),
        (r"H100 PCIe", "H100-PCIE"),
        (r"H200", "H200-141GB"),
        (r"B200", "B200"),
        (r"L4", "L4"),
        (r"L40S", "L40S"),
        (r"T4", "T4"),
        (r"V100-SXM\d-16GB", "V100-16GB"),
        (r"V100-SXM\d-32GB", "V100-32GB"),
        (r"A10", "A10"),
        (r"RTX A6000", "A6000"),
        (r"RTX 3090", "RTX3090"),
        (r"RTX 4090", "RTX4090"),
        (r"MI250X", "MI250X"),
        (r"MI300X( OAM)?", "MI300X"),
    )
)
_VENDOR = re.compile(r"^(NVIDIA|AMD|Tesla|GeForce|Instinct|\s)+", re.IGNORECASE)


def device_of_model(model: str) -> str | None:
    """The device a driver calls so; None if the catalogue has none of that name."""
    name = _VENDOR.sub("", model.strip())
    return next((device for pattern, device in _MODELS if pattern.fullmatch(name)), None)


@dataclass
class Rates:
    """Bandwidths that a file leaves out, as stated in options or taken from elsewhere; what was taken is noted once."""

    device: str | None
    nvlink: float | None
    pcie: float | None
    socket: float | None
    notes: list[str]

    def of_nvlink(self, capability: int | None = None) -> float:
        """Of one NVLink; of a GPU with that compute capability, if the file says it."""
        if self.nvlink is not None:
            return self.nvlink
        known = capability
        if known is None and self.device is not None:
            known = capability_of(self.device)
        rate = nvlink_of(known)
        if known is None:
            self._note("one NVLink", rate, "of the generations of V100 to H100", "device=… or nvlink=…")
        elif capability is None:
            self._note("one NVLink", rate, f"of {self.device}", "nvlink=…")
        return rate

    def of_pcie(self) -> float:
        """Of PCIe."""
        if self.pcie is not None:
            return self.pcie
        rate = pcie_of(self.device)
        self._note("PCIe", rate, f"of {self.device}" if self.device else "of its fourth generation", "pcie=…")
        return rate

    def of_socket(self, vendor_rate: float | None = None) -> float:
        """Between two sockets; of a vendor's, if the file says whose."""
        if self.socket is not None:
            return self.socket
        rate = USUAL_SOCKET if vendor_rate is None else vendor_rate
        self._note("the link between sockets", rate, "as NCCL takes it", "socket=…")
        return rate

    def _note(self, what: str, rate: float, source: str, remedy: str) -> None:
        note = (
            f"The file does not say the bandwidth of {what}: {rate / 1e9:.4g} GB/s is taken, {source}; state {remedy}."
        )
        if note not in self.notes:
            self.notes.append(note)


@dataclass(frozen=True, kw_only=True)
class OneMachine:
    """A machine of a file."""

    names: Sequence[str]  #: Of its devices.
    matrix: Floats  #: [device, device] bandwidth, bytes per second.
    kinds: Sequence[str | None] = ()  #: What each device is, as far as the file says it: None where not.
    #: As of a topology.
    links: Sequence[Link] = ()
    switches: Sequence[str] = ()
    #: What one device reaches of the machine's network cards, bytes per second; None if the file does not say.
    uplink: float | None = None


def of_one_machine(read: Callable[[TextFile, Rates], OneMachine]) -> Callable[..., Topology]:
    """The reader of a format whose files hold one machine: with the options that these have."""

    def whole(
        source: TextFile,
        *,
        device: str | None,
        machines: int | None,
        network: float | None,
        nvlink: float | None,
        pcie: float | None,
        socket: float | None,
    ) -> Topology:
        rates = Rates(device, nvlink, pcie, socket, [])
        return spread(source, read(source, rates), rates, machines, network)

    return whole


def spread(source: TextFile, one: OneMachine, rates: Rates, machines: int | None, network: float | None) -> Topology:
    """The topology of so many machines like the one of a file."""
    number, devices, notes = machines or 1, len(one.names), rates.notes
    count = devices * number
    check_count(source.path, count)
    between = network if network is not None else one.uplink
    if between is None:
        between = load_catalogue().link(DEFAULT_NETWORK).achievable_bytes_per_s
        if number > 1:
            notes.append(
                f"The file does not say what passes between machines: {between / 1e9:.4g} GB/s for each device is "
                f"taken, of {DEFAULT_NETWORK}; state network=…."
            )
    matrix = np.full((count, count), between)
    names, links, vertices = [], [], len(one.switches)
    for machine in range(number):
        first = machine * devices
        matrix[first : first + devices, first : first + devices] = one.matrix
        names += [f"machine{machine}/{name}" if number > 1 else name for name in one.names]
        shift = [*range(first, first + devices), *range(count + machine * vertices, count + (machine + 1) * vertices)]
        links += [Link(shift[a], shift[b], rate) for a, b, rate in one.links]
    if number > 1:
        links += [Link(device, count + number * vertices, between) for device in range(count)]
    switches = [f"machine{m} {name}" if number > 1 else name for m in range(number) for name in one.switches]
    kinds = _kinds(one, rates)
    return Topology(
        name=source.path,
        names=tuple(names),
        bandwidth_bytes_per_s=matrix,
        machine_of=tuple(device // devices for device in range(count)),
        kinds=kinds * number,
        links=tuple(links),
        switches=(*switches, *(["network"] if number > 1 else [])),
        notes=tuple(notes),
    )


def _kinds(one: OneMachine, rates: Rates) -> tuple[str, ...]:
    """What the devices are: as stated, else as the file says of all."""
    if rates.device is not None:
        return (rates.device,) * len(one.names)
    known = [kind for kind in one.kinds if kind is not None]
    return tuple(known) if len(known) == len(one.names) else ()
