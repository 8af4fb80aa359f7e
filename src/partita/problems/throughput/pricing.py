"""Price: a graph and a cluster become a throughput problem.

docs/cost-model.md says what every number means and what is left out.
"""

from __future__ import annotations

from collections import Counter

from partita.costs.gradients import partial_gradients
from partita.costs.optimizer import check_optimizer, keeps_master, optimizer_bytes
from partita.costs.roofline import CostSource, Roofline
from partita.costs.table import cost_source
from partita.costs.units import called_together, cut_units, weights_alone
from partita.costs.workspace import colocation_roots, lives, own_bytes, saved_readers, workspace_bytes
from partita.ground.checks import check_at_least
from partita.ground.dags import joined
from partita.ground.errors import InputError
from partita.ground.units import format_bytes, format_time
from partita.nouns.cluster import Cluster, DeviceGroup, LinkPath
from partita.nouns.graph import Graph
from partita.problems.throughput.devices import DeviceKind, LinkedGroup
from partita.problems.throughput.options import ThroughputPricing
from partita.problems.throughput.problem import (
    MicrobatchSchedule,
    MovedTensor,
    SavedTensor,
    StoredParameter,
    ThroughputProblem,
    TimedOperator,
)


def price(graph: Graph, cluster: Cluster, settings: ThroughputPricing, *, called: bool = False) -> ThroughputProblem:
    """The throughput problem of a graph on a cluster, in seconds and bytes; unless stated one microbatch.

    With backward operators it is training, otherwise inference; devices that are alike become one kind. With ``called``
    tensors move between devices only where modules are called (``costs.units.called_together``).

    Raises ``InputError`` if an option is out of range, recomputation is asked for inference, or a device states no rate
    for a number format the graph computes in.
    """
    training = any(op.phase == "backward" for op in graph.operators)
    optimizer, optimizer_dtype = settings.optimizer, settings.optimizer_dtype
    check_optimizer(optimizer, optimizer_dtype)
    microbatches = 1 if settings.microbatches is None else settings.microbatches
    check_at_least("microbatches", microbatches)
    recompute, hierarchy, working_memory = settings.recompute, settings.hierarchy, settings.working_memory
    if recompute and not training:
        raise InputError("recompute needs a graph with a backward part; trace the model for training, or leave it out")
    source: CostSource = cost_source(settings.costs) or Roofline()
    groups = cluster.groups()
    paths = [cluster.slowest_path(group, inside=hierarchy) for group in groups]
    kinds = tuple(_kind(cluster, group, path) for group, path in zip(groups, paths, strict=True))

    units = cut_units(graph, settings.cuts)
    # What depends on weights alone is no reason to send anything: it is made where it is first read.
    whole = [*enumerate(units), *((v, readers[0]) for v, readers in weights_alone(graph).items())]
    if called:
        whole += called_together(graph, units)
    if settings.tied == "together":
        whole += [(p.users[0], user) for p in graph.parameters if p.aliases for user in p.users]
    roots = colocation_roots(graph)
    first = joined(len(roots), [(roots[u], roots[v]) for u, v in whole])
    roots = [first[root] for root in roots]
    saved = saved_readers(graph) if training else {}
    spans = lives(graph, roots, saved, accumulates=training and microbatches > 1)
    parameters, mastered = _parameters(graph, training, optimizer, optimizer_dtype, settings.master_weights)
    notes = [*graph.notes, *source.notes(graph), *_link_notes(groups, paths, hierarchy), _MEMORY_NOTE]
    if training:
        if microbatches > 1:
            notes.append("The gradient of one microbatch is held beside the sum while it is added.")
        state = "int8" if optimizer.endswith("-8bit") else optimizer_dtype
        kept = "and no optimizer state" if optimizer == "none" else f"and {optimizer} state in {state}"
        copies = f", with a master copy of weights in {optimizer_dtype}" if mastered else ""
        notes.append(
            f"Each trained weight is held with a gradient in its own number format {kept}{copies}; the optimizer's "
            "step, once per batch, is not in the load."
        )
        notes += _tied_notes(graph, roots, paths)
    workspace = own_bytes(graph) if working_memory == "peak" else workspace_bytes(graph, spans)
    return ThroughputProblem(
        name=settings.name if settings.name is not None else f"{graph.name} on {cluster.name}",
        kinds=kinds,
        operators=_operators(graph, groups, source, roots, workspace.tolist()),
        tensors=_tensors(graph, roots),
        parameters=parameters,
        saved=tuple(
            SavedTensor(name=graph.tensors[place].name, users=readers, bytes=float(graph.tensors[place].bytes))
            for place, readers in saved.items()
        ),
        schedule=MicrobatchSchedule(
            name=settings.schedule if training else "inference", microbatches=microbatches, recompute=recompute
        ),
        groups=_machine_groups(cluster, groups) if hierarchy else (),
        unit="s",
        notes=tuple(notes),
        streaming=working_memory == "peak",
        microbatch_samples=graph.samples,
        working_memory=working_memory,
    )


def _kind(cluster: Cluster, group: DeviceGroup, path: LinkPath | None) -> DeviceKind:
    spec = group.spec
    if path is None:
        # A single device never transfers; its own link keeps the problem meaningful when the count is raised.
        link = cluster.links[spec.link]
        path = LinkPath(link=link.name, bandwidth_bytes_per_s=link.achievable_bytes_per_s, latency_s=link.latency_s)
    time = 1.0 / path.bandwidth_bytes_per_s
    return DeviceKind(
        name=spec.name,
        count=len(group.indices),
        memory_bytes=float(spec.usable_bytes),
        accelerator=spec.accelerator,
        transfer_time_per_unit=time,
        transfer_latency=path.latency_s,
        sync_time_per_byte=time,
        reload_time_per_byte=time,
    )


def _machine_groups(cluster: Cluster, groups: list[DeviceGroup]) -> tuple[LinkedGroup, ...]:
    """One group for each machine, with the slowest way to another machine as its link."""
    machine = cluster.machine_of()
    count = len(cluster.machines)
    if count < 2:
        raise InputError(f"cluster {cluster.name} has one machine, so there is no network between groups")
    # One device of every kind stands for the alike ones of each machine.
    standing: list[dict[int, int]] = [{} for _ in groups]
    for found, group in zip(standing, groups, strict=True):
        for device in group.indices:
            found.setdefault(machine[device], device)
    result = []
    for number in range(count):
        mine = [found[number] for found in standing if number in found]
        others = [found[other] for found in standing for other in sorted(found) if other != number]
        path = min(
            (cluster.path(end, other) for end in mine for other in others), key=lambda p: p.bandwidth_bytes_per_s
        )
        result.append(
            LinkedGroup(
                name=f"machine:{number}",
                counts=tuple(sum(machine[i] == number for i in group.indices) for group in groups),
                transfer_time_per_unit=1.0 / path.bandwidth_bytes_per_s,
                transfer_latency=path.latency_s,
            )
        )
    return tuple(result)


def _operators(
    graph: Graph, groups: list[DeviceGroup], source: CostSource, roots: list[int], workspace: list[int]
) -> tuple[TimedOperator, ...]:
    columns = [source.operator_times(graph, group.spec) for group in groups]
    sizes = Counter(roots)
    return tuple(
        TimedOperator(
            id=index,
            times=times,
            name=op.name,
            module=op.module,
            backward=op.phase == "backward",
            colocation=roots[index] if sizes[roots[index]] > 1 else None,
            workspace_bytes=float(workspace[index]),
        )
        for index, (op, times) in enumerate(zip(graph.operators, zip(*columns, strict=True), strict=True))
    )


def _tensors(graph: Graph, roots: list[int]) -> tuple[MovedTensor, ...]:
    """What is moved for every microbatch: not the parts of a parameter's gradient that are added up across devices.

    Each device with a copy of the parameter keeps the sum of its own part; the copies exchange it once per batch.
    """
    parts = partial_gradients(graph)
    return tuple(
        MovedTensor(producer=t.producer, consumers=t.consumers, size=float(t.bytes), name=t.name)
        for place, t in enumerate(graph.tensors)
        if t.producer is not None
        and t.consumers
        and not (place in parts and roots[t.producer] != roots[t.consumers[0]])
    )


def _parameters(
    graph: Graph, training: bool, optimizer: str, dtype: str, master_weights: bool | None
) -> tuple[tuple[StoredParameter, ...], bool]:
    """Parameters with what is held of them, and whether a master copy of some is."""
    result: list[StoredParameter] = []
    mastered = False
    # The graph has a note on weights that nothing reads.
    for parameter in (parameter for parameter in graph.parameters if parameter.users):
        trained = training and parameter.trainable and not parameter.buffer
        state = optimizer_bytes(parameter, optimizer, dtype=dtype, master_weights=master_weights) if trained else 0
        mastered |= trained and keeps_master(parameter, optimizer, dtype, master_weights)
        result.append(
            StoredParameter(
                name=parameter.name,
                users=parameter.users,
                weight_bytes=float(parameter.bytes),
                cache=parameter.cache,
                gradient_bytes=float(parameter.bytes) if trained else 0.0,
                optimizer_bytes=float(state),
            )
        )
    return tuple(result), mastered


#: What is said of memory.
_MEMORY_NOTE = (
    "Memory a stage needs only while it runs is counted as the largest number of bytes alive anywhere in the model "
    "while one of its operators runs, so a tensor that passes a stage by is counted there too; loss to "
    "fragmentation is part of each device's reserve."
)


def _link_notes(groups: list[DeviceGroup], paths: list[LinkPath | None], hierarchy: bool) -> list[str]:
    rates = ", ".join(
        f"{group.spec.name} {path.bandwidth_bytes_per_s / 1e9:.4g} GB/s over {path.link}"
        for group, path in zip(groups, paths, strict=True)
        if path is not None
    )
    if not rates:
        return []
    if hierarchy:
        return [
            f"Transfers are priced at the links inside a machine: {rates}; what leaves a machine is paid by the "
            "machine, too, at the network's rate."
        ]
    note = (
        "Every transfer is priced at the slowest way its device may have to use, wherever the other end is: "
        f"{rates}; transfers do not share links."
    )
    if len(groups) > 1 and not all(group.spec.accelerator for group in groups):
        note += " Transfers between an accelerator and a CPU are priced at the CPU's end at the host link."
    return [note]


def _tied_notes(graph: Graph, roots: list[int], paths: list[LinkPath | None]) -> list[str]:
    slowest = min((path.bandwidth_bytes_per_s for path in paths if path is not None), default=None)
    shared = [p for p in graph.parameters if p.trainable and len({roots[user] for user in p.users}) > 1]
    if not shared or slowest is None:
        return []
    size = sum(p.bytes for p in shared)
    shown = ", ".join("=".join((p.name, *p.aliases)) for p in shared[:3]) + (", …" if len(shared) > 3 else "")
    # A ring all-reduce sends 2·(c − 1)/c of the bytes from each of c devices: all of them where c is 2.
    return [
        f"Some trained parameters are read in several places ({format_bytes(size)}: {shown}). Where these are split, "
        "each device holds weight, gradient and state; two copies exchange their gradients once per batch, about "
        f"{format_time(size / slowest)} if all are split, which is not in the load."
    ]
