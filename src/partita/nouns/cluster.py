"""Cluster: what the machine is.

A cluster is machines joined by a network, each with devices joined by a link. It embeds the numbers of its devices and
links, so that a file which holds a cluster needs no catalogue to be understood.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from partita.ground.checks import check_at_least
from partita.ground.errors import FormatError, InputError
from partita.ground.shown import brief
from partita.nouns.catalogue.document import ClusterDocument, read_cluster_document
from partita.nouns.catalogue.files import check_keys, converted, read_document
from partita.nouns.catalogue.loader import Catalogue, load_catalogue
from partita.nouns.catalogue.shortform import MAX_DEVICES, parse_short_form
from partita.nouns.catalogue.specs import DeviceSpec, LinkSpec

Floats = npt.NDArray[np.float64]

#: The network between machines where none is stated.
DEFAULT_NETWORK = "ethernet-100g"


class Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One machine."""

    devices: tuple[tuple[str, int], ...]  #: (device name, number) pairs in order.
    #: Name of the link between its accelerators; None where each uses the link of its own spec.
    link: str | None = None
    #: Its network cards, each with one of the network's links; None for one card per accelerator (per device where
    #: there is none).
    nics: int | None = None


class LinkPath(msgspec.Struct, frozen=True, kw_only=True):
    """The way from one device to another: its narrowest link, and the achievable bandwidth and latency of the whole."""

    link: str
    bandwidth_bytes_per_s: float
    latency_s: float
    hop_time_s: float = 0.0
    switched: bool = False


class DeviceGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The devices of a cluster that are alike: their spec and their numbers in the cluster, ascending."""

    spec: DeviceSpec
    indices: tuple[int, ...]


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Machines joined by a network.

    Devices are numbered 0, 1, … through the machines in order, and through each machine's devices in order.

    Raises ``InputError`` if there is no device, a count is below 1, a name has no spec, or the matrix has a wrong size
    or value.
    """

    format: ClassVar[str] = "partita.cluster"
    version: ClassVar[int] = 1

    name: str  #: For people; the short form where it was made from one.
    machines: tuple[Machine, ...]  #: At least one.
    network: str  #: Name of the link between machines.
    #: The specs of every device and link that is named, by name.
    devices: dict[str, DeviceSpec]
    links: dict[str, LinkSpec]
    #: Achievable bandwidth between every two devices, where it is known; it replaces what the links say. The diagonal
    #: is not read.
    matrix_bytes_per_s: tuple[tuple[float, ...], ...] | None = None
    notes: tuple[str, ...] = ()  #: What its source left open and what was taken instead.
    network_presumed: bool = False  #: Whether nobody named the network.

    __repr__ = brief

    def __post_init__(self) -> None:
        _validate(self)

    @classmethod
    def from_spec(cls, text: str, *, catalogue: Catalogue | None = None) -> Cluster:
        """The cluster of a short form such as ``4xA100-80GB`` or ``2x(4xL4)+8xT4:ethernet-25g``.

        Parameters
        ----------
        text
            ``N x DEVICE`` is one machine of N, ``N x (DEVICES)`` N machines, ``+`` joins machines and, inside
            parentheses, the devices of one machine; ``@LINK`` after a machine is the link in it, ``:LINK`` at the end
            the network. Case does not matter.
        catalogue
            Where names are looked up; the shipped one unless stated.

        Raises
        ------
        InputError
            If the text is malformed or a name is unknown or ambiguous.
        """
        known = load_catalogue() if catalogue is None else catalogue
        return _build(ClusterDocument("".join(text.split()), *parse_short_form(text), known))

    @classmethod
    def read(cls, path: str | Path) -> Cluster:
        """Read a cluster file, TOML or JSON (by suffix); docs/formats.md documents the keys.

        Raises ``FormatError`` if the file is no TOML or JSON, a key is unknown, or a value has the wrong type;
        ``InputError`` if the file cannot be read, a name is unknown or a value is out of range.
        """
        return cls.from_document(read_document(Path(path)), where=str(path))

    @classmethod
    def from_document(cls, data: Mapping[str, object], *, where: str) -> Cluster:
        """The cluster of a decoded file: a user's file, what ``to_dict`` gives, or a profile's own machine.

        Errors are those of ``read``.
        """
        inner = data.get("cluster")
        if data.get("format") == "partita.profile" and isinstance(inner, Mapping):
            data = inner
        if data.get("format") == cls.format:
            return _from_dict(data, where)
        if "format" in data:
            raise FormatError(f"{where}: format is {data['format']!r}; a cluster file has {cls.format!r} or no format")
        found = read_cluster_document(data, where)
        try:
            return _build(found)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON; ``from_document`` reads them back."""
        body: dict[str, object] = msgspec.to_builtins(self)
        return {"format": self.format, "version": self.version, **body}

    def to_json(self) -> str:
        """One JSON object; ``Cluster.read`` reads it back."""
        return json.dumps(self.to_dict(), indent=1)

    @property
    def device_count(self) -> int:
        """All devices, CPUs included."""
        return sum(count for machine in self.machines for _, count in machine.devices)

    def device_names(self) -> list[str]:
        """Spec name of every device, in order."""
        return [name for machine in self.machines for name, count in machine.devices for _ in range(count)]

    def machine_of(self) -> list[int]:
        """Number of the machine of every device, in order."""
        return [i for i, machine in enumerate(self.machines) for _, count in machine.devices for _ in range(count)]

    def groups(self) -> list[DeviceGroup]:
        """Devices that are alike, in order of first appearance; equal specs under two names are one group."""
        names = self.device_names()
        bare = {name: msgspec.structs.replace(spec, name="", source="") for name, spec in self.devices.items()}
        alike = {name: next(other for other in bare if bare[other] == spec) for name, spec in bare.items()}
        members: dict[str, list[int]] = {}
        for index, name in enumerate(names):
            members.setdefault(alike[name], []).append(index)
        return [DeviceGroup(spec=self.devices[names[m[0]]], indices=tuple(m)) for m in members.values()]

    def workers(self) -> list[DeviceGroup]:
        """The groups of accelerators, or all groups where there are none."""
        groups = self.groups()
        return [group for group in groups if group.spec.accelerator] or groups

    def per_machine(self, group: DeviceGroup) -> list[int]:
        """Devices of a group in each machine that has any."""
        machine = self.machine_of()
        return list(Counter(machine[device] for device in group.indices).values())

    def bandwidth_bytes_per_s(self) -> Floats:
        """Achievable bandwidth between every two devices: the smallest on the way; infinite from a device to itself.

        In one machine the way is the machine's link between accelerators, and the host link where a CPU is involved;
        between machines it is host link, the share of its machine's network cards that each end has, host link.
        """
        if self.matrix_bytes_per_s is not None:
            result = np.array(self.matrix_bytes_per_s, dtype=np.float64)
        else:
            direct, host = self._links()
            peers = np.array([self.links[n].achievable_bytes_per_s for n in direct])
            hosts = np.array([self.links[n].achievable_bytes_per_s for n in host])
            accelerator = np.array([self.devices[n].accelerator for n in self.device_names()], dtype=bool)
            machine = np.array(self.machine_of())
            through_host = np.minimum.outer(hosts, hosts)
            both = np.logical_and.outer(accelerator, accelerator)
            result = np.where(both, np.minimum.outer(peers, peers), through_host)
            network = np.array([self._device_network_bytes_per_s(index) for index in range(len(self.machines))])[
                machine
            ]
            apart = np.not_equal.outer(machine, machine)
            result = np.where(apart, np.minimum(through_host, np.minimum.outer(network, network)), result)
        np.fill_diagonal(result, np.inf)
        return result

    def path(self, source: int, target: int) -> LinkPath:
        """The way between two different devices; its latency is the largest of its links."""
        names, machine = self.device_names(), self.machine_of()
        direct, host = self._links()
        if machine[source] != machine[target]:
            way = [host[source], self.network, host[target]]
        elif self.devices[names[source]].accelerator and self.devices[names[target]].accelerator:
            way = [direct[source], direct[target]]
        else:
            way = [host[source], host[target]]
        links = [self.links[name] for name in way]
        rates = [link.achievable_bytes_per_s for link in links]
        if machine[source] != machine[target]:
            rates[1] = min(self._device_network_bytes_per_s(machine[end]) for end in (source, target))
        bandwidth, name = min(zip(rates, way, strict=True), key=lambda pair: pair[0])
        if self.matrix_bytes_per_s is not None:
            bandwidth, name = self.matrix_bytes_per_s[source][target], "bandwidth matrix"
        return LinkPath(
            link=name,
            bandwidth_bytes_per_s=bandwidth,
            latency_s=max(link.latency_s for link in links),
            hop_time_s=max(link.per_hop_s for link in links),
            # The network decides how machines reach each other, whatever leads to it.
            switched=(links[1] if len(links) == 3 else min(links, key=lambda link: link.switched)).switched,
        )

    def machine_network_bytes_per_s(self, machine: int) -> float:
        """Achievable bandwidth of all network cards of a machine together, in one direction."""
        return self.network_cards(machine) * self.links[self.network].achievable_bytes_per_s

    def host_limit_bytes_per_s(self, machine: int) -> float:
        """What the links of a machine's accelerators (or devices) to their host carry together, in one direction."""
        return sum(
            count * self.links[self.devices[name].to_host].achievable_bytes_per_s
            for name, count in self._networked(machine)
        )

    def _networked(self, machine: int) -> list[tuple[str, int]]:
        """The devices of a machine that share its network cards: accelerators where there are any."""
        devices = self.machines[machine].devices
        return [(name, count) for name, count in devices if self.devices[name].accelerator] or list(devices)

    def network_cards(self, machine: int) -> int:
        """Network cards of a machine."""
        stated = self.machines[machine].nics
        return sum(count for _, count in self._networked(machine)) if stated is None else stated

    def _device_network_bytes_per_s(self, machine: int) -> float:
        """A device's share of its machine's network cards."""
        return self.machine_network_bytes_per_s(machine) / sum(count for _, count in self._networked(machine))

    def reach_bytes_per_s(self, machine: int) -> tuple[float, float] | None:
        """What each device of a machine reaches inside it, and outside it; None where its devices differ in that.

        Of two machines the smaller counts. As ``bandwidth_bytes_per_s`` says it of every pair, without the matrix.
        """
        own = self.machines[machine]
        found = set()
        for name, _ in own.devices:
            spec = self.devices[name]
            host = self.links[spec.to_host].achievable_bytes_per_s
            peer = own.link if own.link is not None and spec.accelerator else spec.link
            inside = self.links[peer].achievable_bytes_per_s if spec.accelerator else host
            found.add((spec.accelerator, inside, min(host, self._device_network_bytes_per_s(machine))))
        return next(iter(found))[1:] if len(found) == 1 else None

    def slowest_path(self, group: DeviceGroup, *, inside: bool = False) -> LinkPath | None:
        """The slowest way from a device of a group to one it may have to talk to; None where it is alone.

        Accelerators talk to accelerators wherever there are two: a CPU in the cluster, which pays its own slow link,
        does not make their links slower. With ``inside`` a device talks to those of its own machine only.
        """
        pairs, matrix = self._talking(group, inside), self.matrix_bytes_per_s
        if matrix is None:
            return min((self.path(*pair) for pair in pairs), key=lambda p: p.bandwidth_bytes_per_s, default=None)
        slowest = min(pairs, key=lambda pair: matrix[pair[0]][pair[1]], default=None)
        return None if slowest is None else self.path(*slowest)

    def _talking(self, group: DeviceGroup, inside: bool) -> Iterator[tuple[int, int]]:
        """Devices of a group with those they may have to talk to; some that stand for all."""
        members, names, machine = set(group.indices), self.device_names(), self.machine_of()
        near: dict[int, list[int]] = {}
        for device in self._representatives():
            near.setdefault(machine[device] if inside else 0, []).append(device)
        for devices in near.values():
            accelerators = [i for i in devices if self.devices[names[i]].accelerator]
            peers = accelerators if group.spec.accelerator and len(accelerators) > 1 else devices
            yield from ((i, j) for i in devices if i in members for j in peers if i != j)

    def _representatives(self) -> list[int]:
        """The first two devices of each entry in the first two machines of each make, or all where a matrix differs.

        Machines of one make are alike, and so are their devices: two of each stand for all of them.
        """
        if self.matrix_bytes_per_s is not None:
            return list(range(self.device_count))
        seen: Counter[Machine] = Counter()
        result: list[int] = []
        index = 0
        for machine in self.machines:
            seen[machine] += 1
            for _, count in machine.devices:
                if seen[machine] <= 2:
                    result += range(index, index + min(count, 2))
                index += count
        return result

    def _links(self) -> tuple[list[str], list[str]]:
        """For every device the name of its link inside the machine and of its link to the host."""
        direct, host = [], []
        for machine in self.machines:
            for name, count in machine.devices:
                spec = self.devices[name]
                direct += [machine.link if machine.link is not None and spec.accelerator else spec.link] * count
                host += [spec.to_host] * count
        return direct, host


def _validate(cluster: Cluster) -> None:
    where = f"cluster {cluster.name!r}"
    if cluster.network not in cluster.links:
        raise InputError(f"{where}: network {cluster.network!r} is not among its links")
    for machine in cluster.machines:
        if machine.link is not None and machine.link not in cluster.links:
            raise InputError(f"{where}: link {machine.link!r} is not among its links")
        if machine.nics is not None:
            check_at_least(f"{where}: nics of a machine", machine.nics)
        for name, count in machine.devices:
            if name not in cluster.devices:
                raise InputError(f"{where}: device {name!r} is not among its devices")
            if count < 1:
                raise InputError(f"{where}: {name} has count {count}; it must be at least 1")
    for name, spec in cluster.devices.items():
        if spec.name != name:
            raise InputError(f"{where}: device {name!r} is called {spec.name!r}; both names must be equal")
        for link in (spec.link, spec.to_host):
            if link not in cluster.links:
                raise InputError(f"{where}: device {name!r} uses link {link!r}, which is not among its links")
    count = cluster.device_count
    if count == 0:
        raise InputError(f"{where} has no devices; a machine needs at least one")
    if count > MAX_DEVICES:
        raise InputError(f"{where} has {count} devices; at most {MAX_DEVICES} are supported")
    if (matrix := cluster.matrix_bytes_per_s) is None:
        return
    if len(matrix) != count or any(len(row) != count for row in matrix):
        raise InputError(f"{where}: the bandwidth matrix must have {count} rows and columns, one for each device")
    for i, row in enumerate(matrix):
        for j, value in enumerate(row):
            if i != j and not (np.isfinite(value) and value > 0):
                raise InputError(f"{where}: the bandwidth from device {i} to {j} is {value}; it must be positive")


def _build(document: ClusterDocument) -> Cluster:
    """The cluster a document describes, with the specs it uses embedded."""
    catalogue = document.catalogue
    devices: dict[str, DeviceSpec] = {}
    links: dict[str, LinkSpec] = {}

    def use_link(text: str) -> str:
        link = catalogue.link(text)
        links[link.name] = link
        return link.name

    machines: list[Machine] = []
    for form in document.machines:
        numbers: list[tuple[str, int]] = []
        for text, count in form.devices:
            spec = catalogue.device(text)
            devices[spec.name] = spec
            use_link(spec.link)
            use_link(spec.to_host)
            numbers.append((spec.name, count))
        link = None if form.link is None else use_link(form.link)
        machines += [Machine(devices=tuple(numbers), link=link, nics=form.nics)] * form.count
    return Cluster(
        name=document.name,
        machines=tuple(machines),
        network=use_link(document.network or DEFAULT_NETWORK),
        network_presumed=document.network is None,
        devices=devices,
        links=links,
        matrix_bytes_per_s=document.matrix,
    )


def _from_dict(data: Mapping[str, Any], where: str) -> Cluster:
    fields = [field.name for field in msgspec.structs.fields(Cluster)]
    check_keys(where, data, ("format", "version", *fields))
    if data.get("version") != Cluster.version:
        raise FormatError(f"{where}: version is {data.get('version')!r}; this program reads version {Cluster.version}")
    return converted(where, {k: v for k, v in data.items() if k in fields}, Cluster)
