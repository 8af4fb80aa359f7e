"""Profile a model: what the processes saw, as one document."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import median, quantiles

import msgspec
import torch

from partita.costs.calibration import calibrate
from partita.costs.profile import Measurement, Phase, Profile, ProfileSettings
from partita.costs.signatures import Signature, fingerprint, signatures
from partita.engines.processes.child import Child
from partita.engines.processes.replies import Reply
from partita.ground.checks import check_at_least
from partita.ground.errors import InputError, ProfileError, require
from partita.ground.processors import usable_cores
from partita.nouns.catalogue.specs import DeviceSpec, LinkSpec
from partita.nouns.cluster import Cluster, Machine
from partita.nouns.graph import Graph, Source
from partita.profiler.alignment import align, besides
from partita.profiler.links import fit_line
from partita.profiler.worker import Job, Report

#: Name of the link between processes.
_LINK = "between-processes"

#: Seconds between two looks at the processes, and lines shown of what one wrote before it failed.
_POLL_S, _LINES = 0.05, 3


def profile_model(
    source: Source,
    *,
    processes: int = 1,
    threads: int | None = None,
    warm_up: int = 2,
    repeats: int = 10,
    device: str = "cpu",
    device_name: str | None = None,
) -> tuple[Graph, Profile]:
    """Run a model on this machine and time its operators.

    Parameters
    ----------
    source
        How the model is made; its graph comes back with the profile.
    processes
        How many run it at the same time, as stages of a plan will; messages between them are timed, too.
    threads
        Threads of each; an equal share of the cores unless stated.
    warm_up, repeats
        Runs before, and runs that count.
    device
        ``cpu`` or ``cuda``.
    device_name
        What the device is called in clusters; after the processor unless stated.

    Raises
    ------
    InputError
        If a number is out of range, there is no such device, or the model cannot be run.
    ProfileError
        If a process fails.
    """
    require("torch", "torch")
    check_at_least("processes", processes)
    check_at_least("repeats", repeats, 2)
    cores = usable_cores()
    threads = max(1, cores // processes) if threads is None else threads
    check_at_least("threads", threads)
    if device != "cpu" and not torch.cuda.is_available():
        raise InputError(f"there is no {device} device here; profile on the cpu, or where there is one")
    job = Job(source, processes, threads, warm_up, repeats, device, folder="")
    reports = run_processes(job)
    graph = reports[0].graph
    assert graph is not None
    settings = ProfileSettings(processes=processes, threads=threads, warm_up=warm_up, repeats=repeats)
    return graph, _document(reports, settings, accelerator=device != "cpu", name=device_name)


def run_processes(job: Job) -> list[Report]:
    """What every process saw, by rank.

    Raises ``InputError`` if the model cannot be built or run; ``ProfileError`` if a process ends without a report.
    """
    with ExitStack() as open_ones:
        job = dataclasses.replace(
            job, folder=open_ones.enter_context(tempfile.TemporaryDirectory(prefix="partita-profile-"))
        )
        children: list[Child] = []
        for rank in range(job.processes):
            children.append(Child("partita.profiler.worker", _lost(rank), threads=job.threads))
            open_ones.callback(children[-1].end)
            children[-1].ask(job, rank)
        reports: dict[int, Report] = {}
        while len(reports) < len(children):
            for rank, child in enumerate(children):
                if rank not in reports and isinstance(found := child.hear(_POLL_S), Reply):
                    if found.error is not None and not isinstance(found.error, InputError):
                        raise ProfileError(f"process {rank} of the profile failed", found.said) from found.error
                    reports[rank] = found.get()
        return [reports[rank] for rank in range(len(children))]


def _lost(rank: int) -> Callable[[str, str], ProfileError]:
    def lost(cause: str, output: str) -> ProfileError:
        said = output.strip().splitlines()[-_LINES:]
        return ProfileError(": ".join([f"process {rank} of the profile {cause}", *said]))

    return lost


def _document(reports: Sequence[Report], settings: ProfileSettings, *, accelerator: bool, name: str | None) -> Profile:
    first = reports[0]
    graph, hardware = first.graph, first.hardware
    assert graph is not None
    assert hardware is not None
    measurements, operators = _measured(reports, graph)
    sums = [0.0, 0.0]
    counts = [0, 0]
    for op, place in zip(graph.operators, operators, strict=True):
        if not op.free:
            counts[op.phase == "backward"] += 1
            sums[op.phase == "backward"] += 0.0 if place is None else measurements[place].time_s
    phases = [
        _phase([t for report in reports for t in getattr(report.observed, field)], sums[which], counts[which])
        for which, field in enumerate(("forward_s", "backward_s"))
    ]
    profile = Profile(
        model=graph.name,
        sha256=fingerprint(graph),
        training=graph.training,
        hardware=hardware,
        settings=settings,
        device=name or first.device_name,
        measurements=tuple(measurements),
        operators=tuple(operators),
        forward=phases[0],
        backward=phases[1] if graph.training else None,
        update_s_per_byte=median(t for report in reports for t in report.observed.update_s_per_byte)
        if graph.training
        else None,
        transfers=first.transfers,
        cluster=_cluster(reports, settings, name or first.device_name, accelerator=accelerator).to_dict(),
    )
    # What its own operators reached says what those that were not measured will.
    fitted = calibrate(profile, profile.spec).fitted
    cluster = Cluster.from_document(profile.cluster, where="")
    cluster = msgspec.structs.replace(cluster, devices={fitted.name: fitted})
    return msgspec.structs.replace(profile, cluster=cluster.to_dict())


def _measured(reports: Sequence[Report], graph: Graph) -> tuple[list[Measurement], list[int | None]]:
    """Distinct operators with their times, and for every operator of the graph its place among them."""
    seen = reports[0].observed
    traced, places = reports[0].events, reports[0].places
    assert traced is not None
    assert places is not None
    found = align(traced, seen.events)
    ran_at = [
        None if event is None or op.free else found[event] for op, event in zip(graph.operators, places, strict=True)
    ]
    more = besides({place for place in ran_at if place is not None}, seen.events, seen.views)
    samples: dict[str, list[float]] = {}
    for report in reports:
        for times in report.observed.times:
            for key, time in zip(report.observed.keys, times, strict=True):
                samples.setdefault(key, []).append(time)
    peaks: dict[str, int] = {}
    for key, peak in zip(seen.keys, seen.peaks, strict=True):
        if peak is not None:
            peaks[key] = max(peak, peaks.get(key, 0))
    measurements: list[Measurement] = []
    known: dict[tuple[tuple[str, ...], Signature], int] = {}
    operators: list[int | None] = []
    for ran, signature in zip(ran_at, signatures(graph), strict=True):
        if ran is None:
            operators.append(None)
            continue
        keys = tuple(seen.keys[place] for place in (ran, *more.get(ran, ())))
        # The same arguments, and as much of the graph's tensors read: slices differ in what they stand for.
        identity = keys, signature
        if identity not in known:
            known[identity] = len(measurements)
            measurements.append(_measurement(signature, [samples[key] for key in keys], peaks.get(keys[0])))
        operators.append(known[identity])
    return measurements, operators


def _measurement(signature: Signature, parts: Sequence[Sequence[float]], peak: int | None) -> Measurement:
    return Measurement(
        signature=signature,
        time_s=sum(median(part) for part in parts),
        best_s=sum(min(part) for part in parts),
        spread_s=sum(_spread(part) for part in parts),
        samples=min(len(part) for part in parts),
        peak_memory_bytes=peak,
    )


def _spread(times: Sequence[float]) -> float:
    low, _, high = quantiles(times, n=4) if len(times) > 1 else (0.0, 0.0, 0.0)
    return high - low


def _phase(times: Sequence[float], operators_s: float, count: int) -> Phase:
    whole = median(times)
    return Phase(time_s=whole, spread_s=_spread(times), issue_s=max(0.0, whole - operators_s) / max(1, count))


def _cluster(reports: Sequence[Report], settings: ProfileSettings, name: str, *, accelerator: bool) -> Cluster:
    """As many devices as there were processes, each with what it reached, and messages as they were."""
    hardware, transfers = reports[0].hardware, reports[0].transfers
    assert hardware is not None
    product = max(report.rates[0] for report in reports)
    copy = max(report.rates[1] for report in reports)
    total = reports[0].memory_bytes
    device = DeviceSpec(
        name=name,
        peak_flops={"float32": product, "float64": product / 2},
        memory_bandwidth_bytes_per_s=copy,
        memory_bytes=total if accelerator else total // settings.processes,
        link=_LINK,
        accelerator=accelerator,
        source=f"measured: {hardware.gpu if accelerator else hardware.cpu}, torch {hardware.torch}",
    )
    latency, bandwidth = fit_line(transfers) if transfers else (0.0, copy / 2)
    if not (math.isfinite(bandwidth) and bandwidth > 0):
        raise InputError("messages between the processes could not be timed; profile again on a quieter machine")
    link = LinkSpec(
        name=_LINK,
        # A message is written by one end and read by the other, each of them half of the time.
        bandwidth_bytes_per_s=2 * bandwidth,
        latency_s=latency / 2,
        source="measured: half of a message's time at either end" if transfers else "a copy in memory",
    )
    return Cluster(
        name=f"{settings.processes}x{name}",
        machines=(Machine(devices=((name, settings.processes),)),),
        network=_LINK,
        devices={name: device},
        links={_LINK: link},
    )
