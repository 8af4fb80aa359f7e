"""Machines as groups: links inside a machine for its devices, the network for the machine."""

from __future__ import annotations

from partita.ground.errors import InputError
from partita.nouns.cluster import Cluster, DeviceGroup
from partita.problems.throughput.devices import DeviceGroup as MachineGroup


def machine_groups(cluster: Cluster, groups: list[DeviceGroup]) -> tuple[MachineGroup, ...]:
    """One group for each machine, with the slowest way to another machine as its link.

    Raises
    ------
    InputError
        If there is one machine only.
    """
    machine = cluster.machine_of()
    count = len(cluster.machines)
    if count < 2:
        raise InputError(f"cluster {cluster.name} has one machine, so there is no network between groups")
    result = []
    for number in range(count):
        # One device of every kind stands for the alike ones of its machine.
        ends = [next((i for i in group.indices if machine[i] == number), None) for group in groups]
        mine = [end for end in ends if end is not None]
        others = [
            next(i for i in group.indices if machine[i] == other)
            for group in groups
            for other in sorted({machine[i] for i in group.indices} - {number})
        ]
        path = min(
            (cluster.path(end, other) for end in mine for other in others), key=lambda p: p.bandwidth_bytes_per_s
        )
        result.append(
            MachineGroup(
                name=f"machine:{number}",
                counts=tuple(sum(machine[i] == number for i in group.indices) for group in groups),
                transfer_time_per_unit=1.0 / path.bandwidth_bytes_per_s,
                transfer_latency=path.latency_s,
            )
        )
    return tuple(result)
