"""What files about one machine have in common: what devices are called, figures that files leave out, each with its
source, the ways inside, and other machines like it. Bandwidths are what large messages reach, bytes per second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.cluster import DEFAULT_NETWORK
from partita.nouns.topology.grammar import Option, parse_bandwidth, parse_count
from partita.nouns.topology.importers.text import TextFile
from partita.nouns.topology.topology import Floats, Link, Topology, check_count

#: Of every format that describes one machine.
MACHINE_OPTIONS = (
    Option("machines", parse_count, "number of machines like the one of the file; 1 unless stated"),
    Option("network", parse_bandwidth, "of a device to another machine"),
    Option("nvlink", parse_bandwidth, "of one NVLink in one direction"),
    Option("pcie", parse_bandwidth, "of PCIe, where the file does not say it"),
    Option("socket", parse_bandwidth, "between two sockets"),
)

#: Share of a link's nominal bandwidth that large messages reach, as in the catalogue.
NVLINK_EFFICIENCY = 0.80
PCIE_EFFICIENCY = 0.80
NETWORK_EFFICIENCY = 0.90

#: One NVLink in one direction by compute capability: P100, V100, A100, RTX 3090 and A6000 (112.5 GB/s both ways over
#: four), H100, B200 and B300. NVIDIA's data sheets of these.
NVLINKS = {60: 20e9, 70: 25e9, 80: 25e9, 86: 14.0625e9, 90: 25e9, 100: 50e9, 103: 50e9}

#: One NVLink where nothing says of which generation it is: so many have had this.
USUAL_NVLINK = 25e9

#: Compute capability by device of the catalogue, where it has NVLinks.
CAPABILITIES = {
    "V100": 70, "A100": 80, "A6000": 86, "RTX3090": 86, "H100": 90, "H200": 90, "B200": 100,
}  # fmt: skip

#: Between two sockets by vendor (NCCL, src/graph/topo.h: its bandwidths of Intel's and AMD's socket links).
SOCKETS = {"GenuineIntel": 10e9, "AuthenticAMD": 16e9}
USUAL_SOCKET = 10e9

#: GB/s of one lane by GT/s, without the coding (PCI Express Base Specification 1.0 to 6.0).
LANES = {2.5: 0.25, 5.0: 0.5, 8.0: 8 / 8 * 128 / 130, 16.0: 16 / 8 * 128 / 130, 32.0: 32 / 8 * 128 / 130, 64.0: 7.5625}

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
    notes: list[str] = field(default_factory=list, init=False)

    def of_nvlink(self, capability: int | None = None) -> float:
        """Of one NVLink; of a GPU with that compute capability, if the file says it."""
        if self.nvlink is not None:
            return self.nvlink
        of_device = (value for name, value in CAPABILITIES.items() if (self.device or "").startswith(name))
        known = next(of_device, None) if capability is None else capability
        rate = NVLINKS.get(known or 0, USUAL_NVLINK) * NVLINK_EFFICIENCY
        if known is None:
            self._note("one NVLink", rate, "of the generations of V100 to H100", "device=… or nvlink=…")
        elif capability is None:
            self._note("one NVLink", rate, f"of {self.device}", "nvlink=…")
        return rate

    def of_pcie(self) -> float:
        """Of PCIe."""
        if self.pcie is not None:
            return self.pcie
        catalogue = load_catalogue()
        link = "pcie4" if self.device is None else catalogue.device(self.device).to_host
        rate = catalogue.link(link).achievable_bytes_per_s
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
    """The reader of a format whose files hold one machine: so many like it, with the options that these have."""

    def whole(
        source: TextFile, *, device: str | None, machines: int | None, network: float | None, **stated: float | None
    ) -> Topology:
        rates = Rates(device, **stated)
        one = read(source, rates)
        number, devices, vertices = machines or 1, len(one.names), len(one.switches)
        count = devices * number
        check_count(source.path, count)
        between = network if network is not None else one.uplink
        if between is None:
            between = load_catalogue().link(DEFAULT_NETWORK).achievable_bytes_per_s
            if number > 1:
                rates.notes.append(
                    f"The file does not say what passes between machines: {between / 1e9:.4g} GB/s for each device is "
                    f"taken, of {DEFAULT_NETWORK}; state network=…."
                )
        matrix = np.full((count, count), between)
        names, links, switches = [], [], []
        for machine, first in enumerate(range(0, count, devices)):
            matrix[first : first + devices, first : first + devices] = one.matrix
            names += [f"machine{machine}/{name}" if number > 1 else name for name in one.names]
            switches += [f"machine{machine} {name}" if number > 1 else name for name in one.switches]
            behind = count + machine * vertices
            shift = [*range(first, first + devices), *range(behind, behind + vertices)]
            links += [Link(shift[a], shift[b], rate) for a, b, rate in one.links]
        if number > 1:
            links += [Link(end, count + number * vertices, between) for end in range(count)]
            switches.append("network")
        # What the devices are: as stated, else as the file says of all.
        kinds = [rates.device] * devices if rates.device is not None else one.kinds
        known = [kind for kind in kinds if kind is not None]
        return Topology(
            name=source.path,
            names=tuple(names),
            bandwidth_bytes_per_s=matrix,
            machine_of=tuple(end // devices for end in range(count)),
            kinds=tuple(known) * number if len(known) == devices else (),
            links=tuple(links),
            switches=tuple(switches),
            notes=tuple(rates.notes),
        )

    return whole


def widest(devices: int, switches: int, links: Iterable[Link]) -> Floats:
    """[device, device] the largest bandwidth of the narrowest link on a way; 0 where there is none, infinite inside.

    Switches are joined in decreasing order of bandwidth, as Kruskal's algorithm does: the link that joins two parts is
    the narrowest of the best way between them.
    """
    direct = np.zeros((devices, devices))
    ports = np.zeros((devices, switches))
    between: list[Link] = []
    for link in links:
        first, last = sorted((link.source, link.target))
        if last < devices:
            direct[first, last] = direct[last, first] = max(direct[first, last], link.bandwidth_bytes_per_s)
        elif first < devices:
            ports[first, last - devices] = max(ports[first, last - devices], link.bandwidth_bytes_per_s)
        else:
            between.append(Link(first - devices, last - devices, link.bandwidth_bytes_per_s))
    inner = np.zeros((switches, switches))
    np.fill_diagonal(inner, np.inf)
    part = np.arange(switches)
    for link in sorted(between, key=lambda link: -link.bandwidth_bytes_per_s):
        here, there = part[link.source], part[link.target]
        if here != there:
            inner[np.ix_(part == here, part == there)] = link.bandwidth_bytes_per_s
            inner[np.ix_(part == there, part == here)] = link.bandwidth_bytes_per_s
            part[part == there] = here
    reach = np.zeros((devices, switches))
    for switch in range(switches):
        reach = np.maximum(reach, np.minimum(ports[:, [switch]], inner[[switch], :]))
    matrix = direct
    for switch in range(switches):
        matrix = np.maximum(matrix, np.minimum.outer(reach[:, switch], ports[:, switch]))
    np.fill_diagonal(matrix, np.inf)
    return matrix
