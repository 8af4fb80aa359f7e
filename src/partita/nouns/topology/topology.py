"""Topology: devices, what passes between every two of them, and the physical links where these are known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from partita.ground.errors import InputError
from partita.ground.shown import brief
from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.catalogue.shortform import MAX_DEVICES
from partita.nouns.cluster import DEFAULT_NETWORK, Cluster, Machine
from partita.nouns.topology.counted import CountedLinks, counted

Floats = npt.NDArray[np.float64]

#: A full matrix for more devices than this does not pay: their machines are counted, or there is no topology.
MAX_TOPOLOGY = 2048

#: What passes between every two devices: a matrix, or what is indexed as one.
Bandwidths = Floats | CountedLinks


class Link(NamedTuple):
    """A physical link between two vertices, devices first and switches after them; the bandwidth of each direction."""

    source: int
    target: int
    bandwidth_bytes_per_s: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Topology:
    """Devices and how they are joined.

    Raises ``InputError`` if there is no device, the parts do not fit each other, or a bandwidth is not positive.
    """

    name: str  #: The short form or the file it comes from.
    names: tuple[str, ...]  #: What each device is called; all different.
    #: [device, device] float64: what large messages from one device to another reach while nobody else talks; infinite
    #: on the diagonal. Of many devices it is no matrix; their machines are counted.
    bandwidth_bytes_per_s: Bandwidths
    machine_of: tuple[int, ...]  #: Number of the machine of every device: 0, 1, … in order.
    kinds: tuple[str, ...] = ()  #: Name in the catalogue of what each device is; empty where the source does not say.
    #: Physical links, all or none: each is what the whole link carries, also if many devices share it. Over them every
    #: pair has at least its bandwidth.
    links: tuple[Link, ...] = ()
    #: Names of the vertices of ``links`` that are no devices; their numbers follow the devices'.
    switches: tuple[str, ...] = ()
    coordinates: tuple[tuple[int, ...], ...] = ()  #: Of every device on a grid; empty where there is none.
    #: [device, device] float64, fixed time of a message, zero on the diagonal; None where it is not known.
    latency_s: Floats | None = None
    notes: tuple[str, ...] = ()  #: What the source left open and what was taken instead.

    __repr__ = brief

    def __post_init__(self) -> None:
        if isinstance(self.bandwidth_bytes_per_s, CountedLinks):
            _validate(self)
            return
        matrix = np.array(self.bandwidth_bytes_per_s, dtype=np.float64)
        if matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]:
            np.fill_diagonal(matrix, np.inf)
        matrix.setflags(write=False)
        object.__setattr__(self, "bandwidth_bytes_per_s", matrix)
        _validate(self)

    @property
    def device_count(self) -> int:
        """Number of devices."""
        return len(self.names)

    @property
    def machine_count(self) -> int:
        """Number of machines."""
        return self.machine_of[-1] + 1

    def matrix(self) -> Floats:
        """[device, device] bandwidths, also of counted machines; ``InputError`` if there are too many for that."""
        found = self.bandwidth_bytes_per_s
        if not isinstance(found, CountedLinks):
            return found
        check_count(f"topology {self.name}", self.device_count)
        return found.matrix()

    def with_device(self, device: str) -> Topology:
        """The same with every device of one kind of the catalogue; ``InputError`` if there is none of that name."""
        return replace(self, kinds=(load_catalogue().device(device).name,) * self.device_count)

    def cluster(self) -> Cluster:
        """The cluster with these bandwidths, for pricing.

        Raises ``InputError`` if it is not known what the devices are.
        """
        if not self.kinds:
            raise InputError(
                f"{self.name} does not say what its devices are; add for example :device=A100-80GB "
                "(`partita devices` lists them)"
            )
        if isinstance(self.bandwidth_bytes_per_s, CountedLinks):
            return self._counted_cluster(self.bandwidth_bytes_per_s)
        catalogue = load_catalogue()
        devices = {kind: catalogue.device(kind) for kind in dict.fromkeys(self.kinds)}
        wanted = [DEFAULT_NETWORK, *(name for spec in devices.values() for name in (spec.link, spec.to_host))]
        # The diagonal is not read, and infinity is no number of JSON.
        matrix = np.where(np.eye(self.device_count, dtype=bool), 0.0, self.matrix())
        machines: list[list[str]] = [[] for _ in range(self.machine_count)]
        for machine, kind in zip(self.machine_of, self.kinds, strict=True):
            machines[machine].append(kind)
        return Cluster(
            name=self.name,
            machines=tuple(
                Machine(devices=tuple((kind, len(list(alike))) for kind, alike in groupby(kinds))) for kinds in machines
            ),
            network=DEFAULT_NETWORK,
            devices=devices,
            links={name: catalogue.link(name) for name in dict.fromkeys(wanted)},
            matrix_bytes_per_s=tuple(map(tuple, matrix.tolist())),
            notes=self.notes,
        )

    def _counted_cluster(self, counts: CountedLinks) -> Cluster:
        """The same of machines that are all alike: links of these bandwidths, with the latencies of usual ones."""
        if len(counts.machines) > 1 or len(set(self.kinds)) > 1:
            raise InputError(f"{self.name} has several kinds of machines; write so many as a cluster's short form")
        (entry,), kind = counts.machines, self.kinds[0]
        catalogue = load_catalogue()
        spec = catalogue.device(kind)
        inside, outside = (
            msgspec.structs.replace(catalogue.link(usual), name=name, bandwidth_bytes_per_s=rate, efficiency=1.0)
            for name, usual, rate in (
                ("inside", spec.link, entry.inside_bytes_per_s),
                ("outside", DEFAULT_NETWORK, entry.outside_bytes_per_s),
            )
        )
        # To other machines a device has just what the topology says.
        host = msgspec.structs.replace(catalogue.link(spec.to_host), name="host")
        if host.achievable_bytes_per_s < entry.outside_bytes_per_s:
            host = msgspec.structs.replace(host, bandwidth_bytes_per_s=entry.outside_bytes_per_s, efficiency=1.0)
        return Cluster(
            name=self.name,
            machines=(Machine(devices=((kind, entry.devices),)),) * entry.count,
            network=outside.name,
            devices={kind: msgspec.structs.replace(spec, link=inside.name, host_link=host.name)},
            links={link.name: link for link in (inside, outside, host)},
            notes=self.notes,
        )


def of_cluster(cluster: Cluster) -> Topology:
    """The topology a cluster describes: what its links or its matrix say, without physical links.

    Of more devices than a matrix is made for, machines are counted. Raises ``InputError`` if they cannot be.
    """
    links: Bandwidths | None = None
    if cluster.device_count > MAX_TOPOLOGY:
        links = counted_links(cluster)
    if links is None:
        check_count(f"cluster {cluster.name}", cluster.device_count)
        links = cluster.bandwidth_bytes_per_s()
    return of_machines(
        cluster.machine_of(),
        links,
        name=cluster.name,
        kinds=tuple(cluster.device_names()),
        notes=cluster.notes,
    )


def counted_links(cluster: Cluster) -> CountedLinks | None:
    """The links of a cluster by its machines; None if a matrix states them, or devices of a machine differ in them."""
    if cluster.matrix_bytes_per_s is not None:
        return None
    # Machines that are equal are one value, so that each make is looked at once.
    reach: dict[Machine, tuple[float, float] | None] = {}
    found = []
    for number, machine in enumerate(cluster.machines):
        if machine not in reach:
            reach[machine] = cluster.reach_bytes_per_s(number)
        rates = reach[machine]
        if rates is None:
            return None
        found.append((sum(count for _, count in machine.devices), *rates))
    return counted(found)


def of_machines(machine_of: Iterable[int], bandwidth: Bandwidths, *, name: str = "", **further: Any) -> Topology:
    """The topology of devices that are called by their machines; all arguments are fields of ``Topology``."""
    machines = tuple(int(machine) for machine in machine_of)
    return Topology(
        name=name,
        names=device_names(machines),
        bandwidth_bytes_per_s=bandwidth,
        machine_of=machines,
        **further,
    )


def device_names(machine_of: Sequence[int]) -> tuple[str, ...]:
    """``machine0/gpu0``, … for devices in the order of their machines; ``gpu0``, … in a single one."""
    seen: dict[int, int] = {}
    names = []
    for machine in machine_of:
        number = seen.get(machine, 0)
        seen[machine] = number + 1
        names.append(f"machine{machine}/gpu{number}" if machine_of[-1] else f"gpu{number}")
    return tuple(names)


def check_count(where: str, count: int, most: int = MAX_TOPOLOGY) -> None:
    """Refuse more devices than a matrix, or what else there is, is made for, before memory is taken for it."""
    if count > most:
        raise InputError(
            f"{where} has {count} devices; a topology of this kind has at most {most}: take a part of it"
            f"{_other_way(count)}"
        )


def _other_way(count: int) -> str:
    """How so many devices are said, if they can be."""
    machines = -(-count // 8)
    if 8 * machines > MAX_DEVICES:
        return ""
    return (
        f", or a cluster of machines that are alike, which are counted, such as {machines}x(8xH100-80GB):infiniband-ndr"
    )


def _check_matrix(where: str, names: Sequence[str], matrix: Floats) -> None:
    """Refuse a bandwidth that is not positive and finite."""
    wrong = ~np.isfinite(matrix) | ~(matrix > 0)
    np.fill_diagonal(wrong, False)
    if wrong.any():
        source, target = (int(i) for i in np.argwhere(wrong)[0])
        raise InputError(
            f"{where}: the bandwidth from {names[source]} to {names[target]} is {matrix[source, target]}; "
            "it must be positive and finite"
        )


def _validate(found: Topology) -> None:
    where, count = f"topology {found.name!r}", len(found.names)
    if not count:
        raise InputError(f"{where} has no devices")
    matrix = found.bandwidth_bytes_per_s
    if not isinstance(matrix, CountedLinks):
        check_count(where, count)
    if len(set(found.names)) < count:
        twice = next(name for i, name in enumerate(found.names) if name in found.names[:i])
        raise InputError(f"{where}: two devices are called {twice!r}; their names must differ")
    if matrix.shape != (count, count):
        raise InputError(f"{where}: the bandwidth matrix must have {count} rows and columns, one for each device")
    if isinstance(matrix, CountedLinks):
        for entry in matrix.machines:
            entry.check(where)
    else:
        _check_matrix(where, found.names, matrix)
    steps = np.diff(np.array(found.machine_of))
    if len(found.machine_of) != count or found.machine_of[0] != 0 or not np.isin(steps, (0, 1)).all():
        raise InputError(f"{where}: the machines of its {count} devices must be 0, 1, … in order")
    for what, values in (("kinds", found.kinds), ("coordinates", found.coordinates)):
        if values and len(values) != count:
            raise InputError(f"{where}: {len(values)} {what} for {count} devices; one for each, or none")
    if found.latency_s is not None and found.latency_s.shape != (count, count):
        raise InputError(f"{where}: the latencies must have {count} rows and columns, one for each device")
    vertices = count + len(found.switches)
    for link in found.links:
        if not (0 <= link.source < vertices and 0 <= link.target < vertices and link.bandwidth_bytes_per_s > 0):
            raise InputError(f"{where}: {link} does not join two of its {vertices} vertices with a positive bandwidth")
