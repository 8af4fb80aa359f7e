"""Profiles made by hand, for tests of what uses them."""

from __future__ import annotations

from typing import Any

from partita.costs.profile import Hardware, Measurement, MessageTime, Phase, Profile, ProfileSettings
from partita.costs.signatures import fingerprint, signatures
from partita.nouns.cluster import Cluster, DeviceSpec, LinkSpec, Machine
from partita.nouns.graph import Graph


def make_machine(count: int = 2) -> Cluster:
    """CPUs of 100 FLOP/s and 10 bytes/s, joined at 5 bytes/s and 2 s per message."""
    device = DeviceSpec(
        name="here",
        peak_flops={"float32": 100.0},
        memory_bandwidth_bytes_per_s=10.0,
        memory_bytes=2**40,
        link="cable",
        accelerator=False,
    )
    return Cluster(
        name="hand",
        machines=(Machine(devices=(("here", count),)),),
        network="cable",
        devices={"here": device},
        links={"cable": LinkSpec(name="cable", bandwidth_bytes_per_s=5.0, latency_s=2.0)},
    )


def make_profile(graph: Graph, times: list[float | None], **changes: Any) -> Profile:
    """A profile of a graph with one measurement for every operator that has a time; 0.5 s between operators."""
    measurements: list[Measurement] = []
    places: list[int | None] = []
    for signature, time in zip(signatures(graph), times, strict=True):
        places.append(None if time is None else len(measurements))
        if time is not None:
            measurements.append(Measurement(signature=signature, time_s=time, best_s=time, spread_s=0.0, samples=3))
    phase = Phase(time_s=1.0, spread_s=0.0, issue_s=0.5)
    values: dict[str, Any] = {
        "model": graph.name,
        "sha256": fingerprint(graph),
        "training": graph.training,
        "hardware": Hardware(cpu="hand", cores=2, memory_bytes=2**41, gpu=None, system="s", python="3", torch="2"),
        "settings": ProfileSettings(processes=2, threads=1, warm_up=1, repeats=3),
        "device": "here",
        "measurements": tuple(measurements),
        "operators": tuple(places),
        "forward": phase,
        "backward": phase if graph.training else None,
        "update_s_per_byte": 0.1 if graph.training else None,
        "transfers": (MessageTime(bytes=10, time_s=6.0),),
        "cluster": make_machine().to_dict(),
    }
    return Profile(**{**values, **changes})
