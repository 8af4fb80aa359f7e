"""Price: a graph and a cluster become a makespan problem: one sample of inference on the cluster's links.

docs/makespan.md, "From a model", says what every number means and what is left out.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from partita.costs.live import live_bytes
from partita.costs.roofline import CostSource, Roofline
from partita.costs.units import called_together, cut_units, weights_alone
from partita.fusion.types import operator_type
from partita.ground.dags import joined
from partita.ground.errors import InputError
from partita.ground.units import format_bytes, format_time
from partita.nouns.catalogue.runtimes import Cuts
from partita.nouns.cluster import Cluster, LinkPath
from partita.nouns.graph import Graph
from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanProblem, device_labels

#: Whether readers of one weight in different modules hold a copy each, or share a device.
Tied = Literal["copy", "together"]


def price(
    graph: Graph,
    cluster: Cluster,
    *,
    tied: Tied = "copy",
    cuts: Cuts = "operator",
    called: bool = False,
    in_turn: bool = False,
    costs: CostSource | None = None,
    name: str | None = None,
) -> MakespanProblem:
    """The makespan problem of a graph on a cluster, in seconds and bytes.

    Parameters
    ----------
    graph
        The model, traced for inference.
    cluster
        The devices; every one of them, CPUs included, is a device of the problem, in the cluster's order.
    tied
        A weight that several modules read: ``copy`` counts it for each of them, ``together`` puts all its readers on
        one device. Readers in one module share a device in any case.
    cuts
        What shares a device: nothing beyond that, the modules that layers are made of, or whole layers (``cut_units``).
    called
        Whether tensors move between devices only where modules are called (``costs.units.called_together``).
    in_turn
        Whether operators run one after the other in the model's order, whatever their devices: what programs do that
        start the next operator when the one before it is done.
    costs
        Where operator times come from; the roofline unless stated.
    name
        The problem's name; the graph's and cluster's names unless stated.

    Raises
    ------
    InputError
        If the graph has a backward part, nothing in it computes, a device states no rate for a number format that the
        graph computes in, an operator runs nowhere, or no device has room for the activations.
    """
    if graph.training:
        raise InputError(
            f"{graph.name} was traced with its backward part; the latency of one sample is about inference: trace it "
            "without training, or plan it for throughput"
        )
    if tied not in ("copy", "together"):
        raise InputError(f"tied is {tied!r}; it must be copy or together")
    source: CostSource = Roofline() if costs is None else costs
    homes = _homes(graph)
    kept = [v for v, home in enumerate(homes) if home == v]
    if not kept:
        raise InputError(f"{graph.name} only takes slices of its inputs; there is nothing to schedule")
    held = live_bytes(graph) + max(op.workspace_bytes for op in graph.operators)
    names = cluster.device_names()
    rooms = [cluster.devices[device].usable_bytes - held for device in names]
    if max(rooms) < 0:
        raise InputError(
            f"up to {format_bytes(held)} of activations of {graph.name} can be held at once, more than any device of "
            f"{cluster.name} has; take a smaller batch or a shorter sequence"
        )
    times = _times(graph, cluster, source, homes, [room >= 0 for room in rooms])
    units = cut_units(graph, cuts)
    whole = [*enumerate(units), *(called_together(graph, units) if called else ())]
    classes = _classes(graph, homes, tied, whole)
    memory, shared = _memory(graph, classes)
    handing = hand_over(graph, homes, classes)
    sizes = Counter(classes[v] for v in kept)
    operators = [
        MakespanOperator(
            id=v,
            times=times[v],
            name=graph.operators[v].name,
            module=graph.operators[v].module,
            type=operator_type(graph.operators[v].target),
            memory=float(memory[v]),
            colocation=classes[v] if sizes[classes[v]] > 1 else None,
        )
        for v in kept
    ]
    idle = tuple(0.0 if room >= 0 else None for room in rooms)
    operators += [MakespanOperator(id=relay, times=idle, name=f"copy of {what}") for relay, what in handing.relays]
    places = range(cluster.device_count)
    paths = [[None if a == b else cluster.path(a, b) for b in places] for a in places]

    @cache
    def transfer(size: int) -> tuple[tuple[float, ...], ...]:
        """Seconds from each device to each: the latency of the way, and bytes over its narrowest link's bandwidth."""
        return tuple(
            tuple(0.0 if path is None else path.latency_s + size / path.bandwidth_bytes_per_s for path in row)
            for row in paths
        )

    flows = tuple(
        MakespanFlow(id=number, source=u, target=v, times=transfer(size))
        for number, (u, v, size) in enumerate(handing.flows)
    )
    notes = [
        *graph.notes,
        *source.notes(graph),
        *_transfer_note(paths),
        *_memory_notes(graph, held, shared, [n for n, room in zip(names, rooms, strict=True) if room < 0]),
        *_handing_notes(handing, len(homes) - len(kept)),
    ]
    return MakespanProblem(
        name=name if name is not None else f"{graph.name} on {cluster.name}",
        devices=tuple(
            Device(name=label, memory=float(max(room, 0)))
            for label, room in zip(device_labels(names), rooms, strict=True)
        ),
        operators=tuple(operators),
        flows=flows,
        precedence=(*handing.precedence, *(_in_turn(kept, handing) if in_turn else ())),
        unit="s",
        notes=tuple(notes),
    )


def _transfer_note(paths: Sequence[Sequence[LinkPath | None]]) -> list[str]:
    """What a reader should know about the times of transfers."""
    # A way over each narrowest link, by its name.
    kinds = {path.link: path for row in paths for path in row if path is not None}
    if not kinds:
        return []
    ways = ", ".join(
        f"{name} {path.bandwidth_bytes_per_s / 1e9:.4g} GB/s after {format_time(path.latency_s)}"
        for name, path in kinds.items()
    )
    if "bandwidth matrix" in kinds:
        ways = "the bandwidth matrix"
    return [
        f"Transfers take the latency of their way and their bytes over its narrowest link: {ways}. A device sends "
        "one tensor at a time and receives one at a time; links between different devices are not shared."
    ]


@dataclass(frozen=True)
class Handing:
    """Flows between operators and relays."""

    flows: tuple[tuple[int, int, int], ...]  #: Source, target and bytes; ids are places in the graph, or of relays.
    precedence: tuple[tuple[int, int], ...]  #: Source and target, where there are no bytes.
    relays: tuple[tuple[int, str], ...]  #: Id, and the name of the tensor; ids are those after the graph's places.


def hand_over(graph: Graph, homes: list[int], classes: list[int]) -> Handing:
    """The tensors of a graph as flows.

    In a makespan problem every flow is moved by itself, so that a tensor with several readers on another device would
    be sent there several times. A row of *relays*, operators that take no time and do nothing but have the tensor,
    hands it on: the first relay reads the producer and feeds the first reader and the next relay, and so on; the last
    one feeds the last two readers. A relay where a reader is costs one transfer there, and whoever comes after it on
    that device reads it. With all relays at the producer every reader gets its own transfer, so no schedule is lost;
    and every schedule can be run, since a device may send on what it was sent.

    ``homes`` has for every operator the one that it is part of, −1 for what is part of the inputs; ``classes`` a number
    that it shares with those on the same device.
    """
    flows: list[tuple[int, int, int]] = []
    precedence: set[tuple[int, int]] = set()
    relays: list[tuple[int, str]] = []
    for tensor in graph.tensors:
        if tensor.producer is None or homes[tensor.producer] < 0:
            continue
        maker = homes[tensor.producer]
        readers = sorted({homes[reader] for reader in tensor.consumers} - {maker})
        if not tensor.bytes:
            precedence.update((maker, reader) for reader in readers)
            continue
        near = [reader for reader in readers if classes[reader] == classes[maker]]
        far = [reader for reader in readers if classes[reader] != classes[maker]]
        flows += [(maker, reader, tensor.bytes) for reader in near]
        holder = maker
        for number, reader in enumerate(far):
            if number < len(far) - 1:
                relay = len(graph.operators) + len(relays)
                relays.append((relay, tensor.name))
                flows.append((holder, relay, tensor.bytes))
                holder = relay
            flows.append((holder, reader, tensor.bytes))
    return Handing(tuple(flows), tuple(sorted(precedence)), tuple(relays))


def _homes(graph: Graph) -> list[int]:
    """For every operator the one that it is part of: a free operator belongs to what makes the one thing it reads.

    Without a maker it is −1: a slice of an input, which is wherever the input is.
    """
    makers: list[set[int]] = [set() for _ in graph.operators]
    for tensor in graph.tensors:
        for reader in tensor.consumers:
            makers[reader].add(-1 if tensor.producer is None else tensor.producer)
    weighty = {user for parameter in graph.parameters for user in parameter.users}
    homes: list[int] = []
    for v, op in enumerate(graph.operators):
        # Makers come earlier, so that their homes are known.
        found = {homes[u] if u >= 0 else -1 for u in makers[v]}
        homes.append(found.pop() if op.free and len(found) == 1 and v not in weighty else v)
    return homes


def _times(
    graph: Graph, cluster: Cluster, source: CostSource, homes: list[int], usable: list[bool]
) -> list[tuple[float | None, ...]]:
    """For every operator its times with those of what is part of it; None on devices that cannot run or hold it."""
    columns: list[list[float | None]] = [[] for _ in usable]
    for group in cluster.groups():
        alone = source.operator_times(graph, group.spec)
        merged: list[float | None] = list(alone)
        for v, home in enumerate(homes):
            if home not in (v, -1):
                first, more = merged[home], alone[v]
                merged[home] = None if first is None or more is None else first + more
        for device in group.indices:
            columns[device] = merged if usable[device] else [None] * len(homes)
    times = list(zip(*columns, strict=True))
    for v, home in enumerate(homes):
        if home == v and all(time is None for time in times[v]):
            raise InputError(
                f"operator {graph.operators[v].name!r} of {graph.name} runs on no device of {cluster.name}; "
                "add a device that can run it, or a time for one"
            )
    return times


def _in_turn(kept: Sequence[int], handing: Handing) -> list[tuple[int, int]]:
    """Every operator after the one before it; what hands a tensor on comes just before the first reader."""
    ahead: dict[int, list[int]] = {}
    relays = {relay for relay, _ in handing.relays}
    for source, target, _ in handing.flows:
        if source in relays and target not in relays:
            ahead.setdefault(target, []).append(source)
            relays.discard(source)
    row = [v for op in kept for v in (*ahead.get(op, ()), op)]
    known = set(handing.precedence)
    return [pair for pair in itertools.pairwise(row) if pair not in known]


def _classes(graph: Graph, homes: list[int], tied: Tied, whole: Sequence[tuple[int, int]]) -> list[int]:
    """For every operator the first one of those that share its device.

    These are those that are said to be ``whole``, what the graph says, readers of one weight in one module (or of one
    weight at all), and what depends on weights alone with its reader, if it has one only.
    """
    pairs = [(v, home) for v, home in enumerate(homes) if home >= 0]
    pairs += whole
    pairs += [(v, op.colocation) for v, op in enumerate(graph.operators) if op.colocation is not None]
    for parameter in graph.parameters:
        firsts: dict[str, int] = {}
        for user in parameter.users:
            module = "" if tied == "together" else graph.operators[user].module
            pairs.append((user, firsts.setdefault(module, user)))
    pairs += [(v, readers[0]) for v, readers in weights_alone(graph).items() if len(readers) == 1]
    return joined(len(homes), pairs)


def _memory(graph: Graph, classes: list[int]) -> tuple[list[int], int]:
    """Stored bytes of every operator, each array at its first reader in every class; and what is counted again."""
    memory, again = [0] * len(classes), 0
    for parameter in graph.parameters:
        firsts: dict[int, int] = {}
        for user in parameter.users:
            firsts.setdefault(classes[user], user)
        for user in firsts.values():
            memory[user] += parameter.bytes
        again += parameter.bytes * max(0, len(firsts) - 1)
    return memory, again


def _memory_notes(graph: Graph, held: int, shared: int, full: Sequence[str]) -> list[str]:
    found = [
        "A device holds the weights and buffers that its operators read, for the whole run, and has "
        f"{format_bytes(held)} set aside: no more activations and scratch memory than that exist at any time of any "
        "schedule."
    ]
    if shared:
        found.append(
            f"Arrays that operators of several modules read are counted for each of them ({format_bytes(shared)} in "
            "all), also where they share a device."
        )
    if full:
        found.append(f"No room for that is on {', '.join(dict.fromkeys(full))}; nothing runs there.")
    return found


def _handing_notes(handing: Handing, parts: int) -> list[str]:
    found = ["Inputs of the model are on every device when the run begins; its results stay where they are made."]
    if parts:
        found.append(f"Slices and views ({parts}) are part of the operator that makes what they are taken from.")
    if handing.relays:
        found.append(
            "A tensor that several operators read is handed from each of these to the next: one transfer to each "
            "device that it reaches in their order; a device that it comes back to, or a second reader there, may "
            "cost another one."
        )
    return found
