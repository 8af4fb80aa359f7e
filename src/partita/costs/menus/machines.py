"""The devices of a cluster as hybrid plans see them: alike, in machines that are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partita.catalogue.specs import DeviceSpec
from partita.cluster import Cluster, LinkPath
from partita.errors import InputError, UnsupportedError


@dataclass(frozen=True)
class Machines:
    """Devices to train on: what each is, and how many there are."""

    device: DeviceSpec
    count: int
    per_machine: int
    """The fewest in a machine."""
    inside: LinkPath | None
    """The slowest way between two devices of one machine."""
    outside: LinkPath | None
    """The slowest way between any two devices."""
    bandwidth_bytes_per_s: float
    """What each device moves per second; with machines of several devices inside its machine."""
    machine_bandwidth_bytes_per_s: float | None
    """What each machine of several devices moves per second; None where all ways are alike."""

    def path(self, degree: int) -> LinkPath | None:
        """The slowest way in a tensor-parallel group."""
        return self.inside if degree <= self.per_machine else self.outside

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


def find_machines(cluster: Cluster) -> Machines:
    """The devices of a cluster; where they are ``uneven``, an ``UnsupportedError``."""
    wrong = uneven(cluster)
    if wrong is not None:
        needed = "menus of layers need devices and machines that are alike"
        raise UnsupportedError(f"cluster {cluster.name} {wrong}; {needed}")
    (group,) = cluster.workers()
    counts = cluster.per_machine(group)
    inside, outside = cluster.slowest_path(group, inside=True), cluster.slowest_path(group)
    between = None
    if len(counts) > 1 and inside is not None and outside is not None:
        between = outside.bandwidth_bytes_per_s
    path = inside or outside
    # A single device never transfers; its own link keeps the problem meaningful when the count is raised.
    link = cluster.links[group.spec.link].achievable_bytes_per_s
    return Machines(
        device=group.spec,
        count=len(group.indices),
        per_machine=min(counts),
        inside=inside,
        outside=outside,
        bandwidth_bytes_per_s=link if path is None else path.bandwidth_bytes_per_s,
        machine_bandwidth_bytes_per_s=between,
    )


def uneven(cluster: Cluster) -> str | None:
    """What keeps the devices to train on from being alike, as the rest of a sentence; None if they are.

    They are the accelerators, where there are any.
    """
    groups = cluster.workers()
    if len(groups) > 1:
        return f"has several kinds of devices ({', '.join(group.spec.name for group in groups)})"
    counts = cluster.per_machine(groups[0])
    return f"has machines of {min(counts)} to {max(counts)} devices" if len(set(counts)) > 1 else None
