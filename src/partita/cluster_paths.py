"""The ways between the devices of a machine."""

from __future__ import annotations

from partita.cluster import Cluster, DeviceGroup, LinkPath


def inside_paths(cluster: Cluster, groups: list[DeviceGroup]) -> list[LinkPath | None]:
    """The slowest way from a device of each kind to one in its own machine; None where it is always alone.

    Accelerators talk to accelerators wherever there are two in a machine.
    """
    machine = cluster.machine_of()
    names = cluster.device_names()
    accelerator = [cluster.devices[name].accelerator for name in names]
    members: dict[int, list[int]] = {}
    for device, number in enumerate(machine):
        members.setdefault(number, []).append(device)
    result: list[LinkPath | None] = []
    for group in groups:
        paths: list[LinkPath] = []
        for device in group.indices:
            others = [other for other in members[machine[device]] if other != device]
            alike = [other for other in others if accelerator[other]] if accelerator[device] else []
            paths += [cluster.path(device, other) for other in alike or others]
        result.append(min(paths, key=lambda path: path.bandwidth_bytes_per_s, default=None))
    return result
