"""What layers of a step keep in the host's memory: activations on the way, and the optimizer with its states.

Sources: activations go to the host and come back as in Rhu et al., "vDNN" (MICRO 2016), §III; gradients go there, the
host's processors make the optimizer's step on what they hold, and new weights come back, as in Ren et al.,
"ZeRO-Offload" (USENIX ATC 2021), §4, and under Megatron Core's ``--optimizer-cpu-offload``.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from partita.costs.strategies.strategy import LayerStrategy
from partita.ground.units import format_bytes
from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.catalogue.specs import DeviceSpec
from partita.nouns.cluster import Cluster
from partita.problems.hybrid.layer import Configuration
from partita.problems.hybrid.training import LayerState

#: Accelerators for each of the catalogue's CPUs, where a cluster says nothing of its hosts: eight on two sockets.
DEVICES_PER_CPU = 4


class HostShare(NamedTuple):
    """What each device has of its host."""

    link: float  #: Bytes per second over its link, each way.
    memory: float  #: Bytes per second that the host's processors read and write for it, beside the other devices.
    #: Whether layers may keep activations there, and whether the optimizer and its states are there.
    activations: bool
    optimizer: bool


def host_of(cluster: Cluster, *, activations: bool, optimizer: bool) -> HostShare | None:
    """The host of each accelerator of a cluster of one kind of them; None if nothing is kept there.

    Without CPUs in the cluster, each machine counts as one with a CPU of the catalogue for every four devices.
    """
    if not (activations or optimizer):
        return None
    group = cluster.workers()[0]
    devices = min(cluster.per_machine(group))
    cpus = [
        sum(
            count * _rate(cluster.devices[name]) for name, count in one.devices if not cluster.devices[name].accelerator
        )
        for one in cluster.machines
    ]
    memory = min(cpus) or max(1, devices // DEVICES_PER_CPU) * _rate(load_catalogue().device("CPU"))
    link = cluster.links[group.spec.to_host].achievable_bytes_per_s
    return HostShare(link, memory / devices, activations, optimizer)


def _rate(cpu: DeviceSpec) -> float:
    return cpu.memory_bandwidth_bytes_per_s * cpu.memory_efficiency


def kept_on_host(entry: LayerStrategy, plain: Configuration, link: float) -> Configuration:
    """The layer with its activations sent to the host during the forward part, and brought back for the backward part.

    Each part of ``plain``, without recomputation, takes as long as the transfer beside it, at least. The device holds
    one microbatch's activations, whatever is in flight: those that are made, sent or used.
    """
    transfer = entry.activation_bytes / link
    ahead = plain.time if plain.forward_time is None else plain.forward_time
    forward = max(ahead, transfer)
    return msgspec.structs.replace(
        plain,
        id="offload",
        time=forward + max(plain.time - ahead, transfer),
        forward_time=forward,
        memory_per_microbatch_bytes=0.0,
        memory_bytes=plain.memory_bytes + entry.activation_bytes,
    )


def updated_on_host(state: LayerState, trained: float, host: HostShare) -> LayerState:
    """Weights whose optimizer is on the host, ``trained`` bytes of which it trains.

    Gradients come, the host reads them, reads and writes states and writes weights, and these go back, part after part
    of the weights: the slowest of the three counts.
    """
    down, up = state.gradient_bytes / host.link, trained / host.link
    work = (state.gradient_bytes + 2.0 * state.optimizer_bytes + trained) / host.memory
    return msgspec.structs.replace(state, optimizer_bytes=0.0, update_time=max(down, work, up))


def host_notes(host: HostShare | None, states: float) -> list[str]:
    """What a reader should know, given the bytes of all states of one replica."""
    if host is None or not host.optimizer:
        return []
    return [
        f"The optimizer runs on the hosts, which read and write {format_bytes(host.memory)}/s for each device and keep "
        f"its states, {format_bytes(states)} of each replica that shares none out; their memory is not limited."
    ]
