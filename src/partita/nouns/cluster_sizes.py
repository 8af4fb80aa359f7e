"""The same cluster with more or fewer devices."""

from __future__ import annotations

import msgspec

from partita.ground.errors import InputError
from partita.nouns.cluster import Cluster


def with_devices(cluster: Cluster, devices: int) -> Cluster:
    """The cluster with another number of devices, in machines like its first one.

    A cluster of one device is a kind of device: its machine grows. Up to one machine there are fewer devices in it,
    beyond that there are more machines, which the devices have to fill.
    """
    machine = cluster.machines[0]
    if any(other != machine for other in cluster.machines) or len(machine.devices) != 1:
        raise InputError(
            f"cluster {cluster.name} has different machines or devices; other numbers of devices need machines that "
            "are alike, with devices of one kind, such as 8xA100-80GB or 2x(8xA100-80GB)"
        )
    if cluster.matrix_bytes_per_s is not None:
        raise InputError(f"cluster {cluster.name} has a bandwidth matrix, which other numbers of devices do not fit")
    name, size = machine.devices[0]
    if (size == 1 and len(cluster.machines) == 1) or devices <= size:
        size = devices
    if devices % size:
        raise InputError(
            f"{devices} devices do not fill machines of {size}; "
            f"take {devices // size * size} or {(devices // size + 1) * size}"
        )
    count = devices // size
    link = "" if machine.link is None else f"@{machine.link}"
    text = f"{size}x{name}{link}" if count == 1 else f"{count}x({size}x{name}){link}"
    return msgspec.structs.replace(
        cluster,
        name=f"{text}:{cluster.network}" if count > 1 else text,
        machines=(msgspec.structs.replace(machine, devices=((name, size),)),) * count,
    )
