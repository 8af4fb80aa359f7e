"""The devices of a cluster as hybrid plans see them: alike, in machines that are alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from partita.costs.collectives import Level
from partita.ground.errors import InputError, UnsupportedError
from partita.nouns.catalogue.specs import DeviceSpec
from partita.nouns.cluster import Cluster, LinkPath


@dataclass(frozen=True)
class EvenMachines:
    """Devices to train on: what each is, and how many there are."""

    device: DeviceSpec
    count: int
    per_machine: int  #: The fewest in a machine.
    inside: LinkPath | None  #: The slowest way between two devices of one machine.
    #: The slowest way between any two devices, when all devices of their machines use the network at once.
    outside: LinkPath | None
    #: What each device moves per second; with machines of several devices inside its machine.
    bandwidth_bytes_per_s: float
    #: What each machine of several devices moves per second, in one direction; None where all ways are alike.
    machine_bandwidth_bytes_per_s: float | None
    notes: tuple[str, ...] = ()  #: What a reader should know about the network, one sentence each.

    def path(self, degree: int) -> LinkPath | None:
        """The slowest way in a tensor-parallel group."""
        return self.inside if degree <= self.per_machine else self.outside

    def levels(self, members: int, stride: int) -> tuple[Level, ...]:
        """The links of a group of devices whose numbers are so far apart, inside machines and between them."""
        together = math.gcd(members, max(1, self.per_machine // stride))
        outside = self.bandwidth_bytes_per_s
        if self.machine_bandwidth_bytes_per_s is not None:
            outside = min(outside, self.machine_bandwidth_bytes_per_s / self.per_machine)
        sizes, rates = (together, members // together), (self.bandwidth_bytes_per_s, outside)
        paths = (self.inside or self.outside, self.outside or self.inside)
        return tuple(
            Level(size, rate) if path is None else Level(size, rate, path.latency_s, path.hop_time_s, path.switched)
            for size, rate, path in zip(sizes, rates, paths, strict=True)
        )

    def degrees(self, asked: Sequence[int] | None) -> list[int]:
        """Tensor-parallel degrees, ascending: those asked for, or powers of two up to the devices of a machine."""
        if asked is None:
            return [1 << k for k in range(self.per_machine.bit_length())]
        if not asked:
            raise InputError("degrees is empty; give at least one tensor-parallel degree")
        alike = self.machine_bandwidth_bytes_per_s is None
        most, where = (self.count, "the cluster's") if alike else (self.per_machine, "a machine's")
        for degree in asked:
            if not 1 <= degree <= most:
                raise InputError(f"tensor-parallel degree {degree} must be between 1 and {where} {most} devices")
        return sorted(set(asked))


def find_machines(cluster: Cluster) -> EvenMachines:
    """The devices of a cluster; where they are ``uneven``, an ``UnsupportedError``."""
    wrong = uneven(cluster)
    if wrong is not None:
        needed = "spaces of layers need devices and machines that are alike"
        raise UnsupportedError(f"cluster {cluster.name} {wrong}; {needed}")
    (group,) = cluster.workers()
    counts = cluster.per_machine(group)
    inside, outside = cluster.slowest_path(group, inside=True), cluster.slowest_path(group)
    between: float | None = None
    notes: tuple[str, ...] = ()
    if len(counts) > 1 and inside is not None and outside is not None:
        between, notes = _between(cluster, group.indices, outside)
    path = inside or outside
    # A single device never transfers; its own link keeps the problem meaningful when the count is raised.
    link = cluster.links[group.spec.link].achievable_bytes_per_s
    return EvenMachines(
        device=group.spec,
        count=len(group.indices),
        per_machine=min(counts),
        inside=inside,
        outside=outside,
        bandwidth_bytes_per_s=link if path is None else path.bandwidth_bytes_per_s,
        machine_bandwidth_bytes_per_s=between,
        notes=notes,
    )


def _between(cluster: Cluster, devices: Sequence[int], outside: LinkPath) -> tuple[float, tuple[str, ...]]:
    """What the narrowest machine moves per second, and what to say of it."""
    of_device = cluster.machine_of()
    machines = sorted({of_device[device] for device in devices})
    if cluster.matrix_bytes_per_s is not None:
        rate = min(cluster.network_cards(machine) for machine in machines) * outside.bandwidth_bytes_per_s
        return rate, (f"Each machine sends {_rate(rate)} to others, by the bandwidth matrix and its network cards.",)
    cards, host = min((cluster.machine_network_bytes_per_s(m), cluster.host_limit_bytes_per_s(m)) for m in machines)
    network = cluster.links[cluster.network]
    number = round(cards / network.achievable_bytes_per_s)
    said = (
        f"Each machine sends {_rate(min(cards, host))} to others: {number} network cards ({network.name}) of "
        f"{_rate(network.achievable_bytes_per_s)} each"
    )
    if host < cards:
        said += f", limited by its devices' links to the host, {_rate(host)} together"
    return min(cards, host), (said + f"; one device sends at most {_rate(outside.bandwidth_bytes_per_s)}.",)


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.4g} GB/s"


def uneven(cluster: Cluster) -> str | None:
    """What keeps the devices to train on from being alike, as the rest of a sentence; None if they are.

    They are the accelerators, where there are any.
    """
    groups = cluster.workers()
    if len(groups) > 1:
        return f"has several kinds of devices ({', '.join(group.spec.name for group in groups)})"
    counts = cluster.per_machine(groups[0])
    return f"has machines of {min(counts)} to {max(counts)} devices" if len(set(counts)) > 1 else None
