"""From a training graph and a cluster to a hybrid problem."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partita.costs.elementwise_chains import fuse_pointwise
from partita.costs.optimizer import check_optimizer
from partita.costs.roofline import CostSource, Roofline
from partita.costs.strategies.context_expert import ContextExpertPricer
from partita.costs.strategies.layers import find_splits
from partita.costs.strategies.machines import find_machines
from partita.costs.strategies.modes import Modes, Splits, assign_modes
from partita.costs.strategies.pricing import LayerPricer, OptimizerSettings, first_alike
from partita.costs.strategies.strategy import LayerStrategies, LayerStrategy
from partita.costs.strategies.view import GraphView
from partita.ground.checks import check_at_least
from partita.ground.errors import InputError
from partita.ground.units import format_bytes
from partita.nouns.catalogue.specs import DeviceSpec
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph
from partita.nouns.topology.read import read_cluster
from partita.problems.hybrid.problem import Configuration, Edge, Hierarchy, HybridProblem, Layer, Spread
from partita.problems.hybrid.step.pricing import Offload, offloaded, step_layers, step_training
from partita.problems.hybrid.step.spreads import Sharing, spread_menus, spread_notes, spread_training
from partita.problems.hybrid.training import Training

#: The paper adds up what replicas send and receive of every weight; links of the catalogue carry both at once.
DUPLEX = 0.5

#: Ways to save memory that can be asked for; ``none`` is always there.
MEMORY_OPTIONS = ("none", "selective", "full")


@dataclass(frozen=True)
class LayerMenus:
    """A hybrid problem with what its numbers are made of.

    Attributes
    ----------
    problem
        The problem.
    layers
        What each of its layers can do and costs, in the same order.
    reserve_bytes
        Working memory that was taken off every device's limit; 0 for a step, whose stages hold it themselves.
    spreads
        Of a step, what the layers cost where devices share out the sequence and experts: by these two degrees.
    """

    problem: HybridProblem
    layers: tuple[LayerStrategies, ...]
    reserve_bytes: float
    spreads: dict[tuple[int, int], tuple[LayerStrategies, ...]] = dataclasses.field(default_factory=dict)


def model_flops(graph: Graph) -> float:
    """Floating-point operations of one microbatch, forward and backward, a multiply-add being two.

    Products, convolutions and attention are counted, recomputation is not: model FLOPs utilisation is this, times the
    microbatches per second, over the peak of all devices (Chowdhery et al., "PaLM", 2022, Appendix B).
    """
    return float(graph.flops)


def hybrid_problem(graph: Graph, cluster: Cluster | str | Path, **settings: Any) -> HybridProblem:
    """The hybrid problem of training a model on a cluster; parameters and errors are those of ``layer_menus``."""
    return layer_menus(graph, cluster, **settings).problem


def layer_menus(
    graph: Graph,
    cluster: Cluster | str | Path,
    *,
    microbatches: int,
    optimizer: str = "adam",
    optimizer_dtype: str = "float32",
    master_weights: bool | None = None,
    zero1: bool = False,
    sequence_parallel: bool = True,
    gather_again: bool = True,
    degrees: Sequence[int] | None = None,
    memory_options: Sequence[str] = MEMORY_OPTIONS,
    offload: Offload | None = None,
    costs: CostSource | None = None,
    fused: bool | None = None,
    name: str | None = None,
    training: Training | None = None,
    gradient_dtype: str = "parameter",
    sharing: Sharing | None = None,
    host_activations: bool = False,
) -> LayerMenus:
    """The hybrid problem of training a model on a cluster, in seconds and bytes, and what its numbers are made of.

    Parameters
    ----------
    graph
        The model, traced for training.
    cluster
        Devices of one kind (CPUs beside accelerators are not used), or what ``read_cluster`` takes.
    microbatches
        Microbatches of a batch; weights are synchronised once per batch.
    optimizer, optimizer_dtype, master_weights
        As for ``price``.
    zero1
        Share optimizer states out among data-parallel replicas (Rajbhandari et al., "ZeRO", SC 2020, stage 1). Replicas
        exchange as many bytes as without: gradients are scattered, and updated weights gathered.
    sequence_parallel
        Whether a tensor-parallel group shares out the tokens where it cannot share out features.
    gather_again
        Whether the tokens that are gathered for products are gathered again in the backward pass, as Megatron-LM does,
        or kept whole, as where automatic differentiation decides.
    degrees
        Tensor-parallel degrees; 1, 2, 4, … up to the devices of a machine unless stated.
    memory_options
        Which of ``none``, ``selective`` and ``full`` recomputation to offer; ``none`` is always offered.
    offload
        Further configurations: a function from a layer's ``LayerStrategy`` without recomputation to a configuration, to
        several or to None; or by layer name and degree, the configurations.
    costs
        Where operator times come from; the roofline unless stated.
    fused
        Whether chains of elementwise operators run as one kernel (``partita.costs.elementwise_chains``); unless
        stated, where the model is compiled.
    name
        The problem's name; the graph's and cluster's names unless stated.
    training
        For a problem about one optimizer step, what its plans may choose; ``zero1`` then has no meaning. None for one
        about the time per sample.
    gradient_dtype
        Of a step, the number format in which gradients are added up and exchanged; ``parameter`` for that of weights.
    sharing
        Of a step, context- and expert-parallel degrees; those that suit unless stated.
    host_activations
        Of a step, whether layers may keep their activations in the host's memory, over each device's link to it.

    Returns
    -------
    LayerMenus
        docs/menus.md says what every number means.

    Raises
    ------
    InputError
        If the graph has no backward part, or an option is unknown or out of range.
    UnsupportedError
        If the cluster has several kinds of accelerators, or something is asked for that is not modelled.
    """
    cluster = read_cluster(cluster)
    _check(graph, microbatches, optimizer, optimizer_dtype, memory_options)
    sharing = sharing or Sharing()
    sharing.check()
    machines = find_machines(cluster)
    chosen = machines.degrees(degrees)
    between, hierarchy = machines.machine_bandwidth_bytes_per_s, None
    if between is not None:
        hierarchy = Hierarchy(devices_per_machine=machines.per_machine, machine_bandwidth_bytes_per_unit=between)
    source: CostSource = Roofline() if costs is None else costs

    splits = find_splits(GraphView(graph))
    if graph.compiled if fused is None else fused:
        graph = fuse_pointwise(graph, splits.layer)
        splits = find_splits(GraphView(graph))
    pricer = LayerPricer(
        splits,
        _times(graph, source, machines.device),
        machines.device,
        {degree: machines.path(degree) for degree in chosen},
        OptimizerSettings(microbatches, optimizer, optimizer_dtype, master_weights),
        _scaling(source),
    )
    modes = {degree: assign_modes(splits, degree, sequence_parallel, again=gather_again) for degree in chosen}
    menus = _menus(pricer, modes, memory_options)
    _check_offload(offload, splits.names, chosen)
    reserve = _reserve(menus)
    further: dict[tuple[int, int], tuple[LayerStrategies, ...]] = {}
    spreads: tuple[Spread, ...] = ()
    notes: list[str] = []
    bandwidth = machines.device.memory_bandwidth_bytes_per_s * machines.device.memory_efficiency
    edges = _edges(splits)
    if training is None:
        layers = tuple(_layer(menu, reserve, offload, zero1, bandwidth) for menu in menus)
    else:

        def spread(rows: Sequence[LayerStrategies], context: int, expert: int) -> Spread:
            aside, own = {degree: _reserve(rows, degree) for degree in chosen}, offload
            if (context, expert) != (1, 1) and not callable(offload):
                own = None
            handed = [Edge(source=e.source, target=e.target, bytes=e.bytes / context) for e in edges]
            found = step_layers(rows, handed, aside, bandwidth, gradient_dtype, sequence_parallel, own, host)
            return Spread(context=context, expert=expert, layers=found, reserves=aside)

        host = cluster.links[machines.device.to_host].achievable_bytes_per_s if host_activations else None
        spreader = ContextExpertPricer(pricer, machines.levels, sharing.capacity)
        training = spread_training(training, spreader, sharing, machines.count)
        further = spread_menus(spreader, menus, modes, memory_options, training)
        whole = spread(menus, 1, 1)
        layers, training, reserve = whole.layers, step_training(training, machines, whole.reserves), 0.0
        spreads = tuple(spread(rows, *pair) for pair, rows in further.items())
        notes = spread_notes(spreader, training, sharing)
    problem = HybridProblem(
        name=name if name is not None else f"{graph.name} on {cluster.name}",
        devices=machines.count,
        memory_bytes=max(float(machines.device.usable_bytes) - reserve, 0.0),
        bandwidth_bytes_per_unit=machines.bandwidth_bytes_per_s,
        microbatches=microbatches,
        microbatch_samples=graph.samples,
        layers=layers,
        edges=edges,
        unit="s",
        weight_sync_per_batch=training is None,
        hierarchy=hierarchy,
        update_shared=zero1 and training is None,
        training=training,
        spreads=spreads,
        notes=(
            *graph.notes,
            *source.notes(graph),
            *machines.notes,
            *_notes(menus, modes, reserve, sequence_parallel, zero1, training),
            *notes,
        ),
    )
    return LayerMenus(problem, tuple(menus), reserve, further)


def layer_modules(graph: Graph, menus: LayerMenus) -> dict[int, tuple[str, ...]]:
    """The modules of every layer; a layer that is no module of its own lists the modules whose operators it holds."""
    view = GraphView(graph)
    held: list[dict[str, None]] = [{} for _ in menus.layers]
    paths = {op.module for op in graph.operators}
    for place, number in enumerate(find_splits(view).layer):
        module = graph.operators[place].module
        if module and not view.backward[place]:
            held[number].setdefault(module)
    found = {}
    for menu, modules in zip(menus.layers, held, strict=True):
        whole = any(path == menu.name or path.startswith(f"{menu.name}.") for path in paths)
        found[menu.id] = (menu.name,) if whole else tuple(modules)
    return found


def layer_operators(graph: Graph, menus: LayerMenus) -> dict[int, tuple[int, ...]]:
    """The operators of every layer, by its id."""
    members = find_splits(GraphView(graph)).members
    return {menu.id: tuple(members[number]) for number, menu in enumerate(menus.layers)}


def selective_ways(graph: Graph, menus: LayerMenus) -> dict[int, str]:
    """What ``selective`` recomputation of each layer is, by its id: as ``partita.nouns.split.Layer`` calls it."""
    splits = find_splits(GraphView(graph))
    scores = {splits.layer[region.core[0]] for region in splits.regions if region.core}
    return {menu.id: "attention" if number in scores else "operators" for number, menu in enumerate(menus.layers)}


# -- checks and times -----------------------------------------------------------------------------------------------


def _check(graph: Graph, microbatches: int, optimizer: str, dtype: str, options: Sequence[str]) -> None:
    if not any(op.phase == "backward" for op in graph.operators):
        raise InputError(f"graph {graph.name!r} has no backward part; trace the model for training")
    check_at_least("microbatches", microbatches)
    check_optimizer(optimizer, dtype)
    for option in options:
        if option not in MEMORY_OPTIONS:
            raise InputError(f"memory option is {option!r}; it must be one of {', '.join(MEMORY_OPTIONS)}")


def _check_offload(offload: Offload | None, names: list[str], degrees: list[int]) -> None:
    if offload is None or callable(offload):
        return
    for layer, found in offload.items():
        if layer not in names:
            raise InputError(f"offload names layer {layer!r}; the layers are {', '.join(names[:4])}, …, {names[-1]}")
        for degree in found:
            if degree not in degrees:
                raise InputError(
                    f"offload names degree {degree} of layer {layer!r}; the degrees are {', '.join(map(str, degrees))}"
                )


def _times(graph: Graph, source: CostSource, device: DeviceSpec) -> list[float]:
    result = []
    for op, time in zip(graph.operators, source.operator_times(graph, device), strict=True):
        if time is None:
            raise InputError(
                f"operator {op.name} cannot run on {device.name} by the given costs; hybrid plans run every "
                "operator on the same kind of device"
            )
        result.append(time)
    return result


def _scaling(source: CostSource) -> Roofline:
    """The roofline that says how much faster a part of an operator is than all of it."""
    while not isinstance(source, Roofline):
        otherwise = getattr(source, "otherwise", None)
        if otherwise is None:
            return Roofline()
        source = otherwise
    return source


# -- layers ---------------------------------------------------------------------------------------------------------


def _menus(pricer: LayerPricer, modes: dict[int, Modes], options: Sequence[str]) -> list[LayerStrategies]:
    splits = pricer.splits
    menus: list[LayerStrategies] = []
    for number, like in enumerate(first_alike(pricer, modes)):
        name = splits.names[number]
        if like != number:
            entries = {
                degree: tuple(dataclasses.replace(entry, layer=name) for entry in found)
                for degree, found in menus[like].entries.items()
            }
        else:
            entries = {degree: pricer.entries(number, found, options) for degree, found in modes.items()}
        regions = tuple(r for r in splits.regions if splits.layer[r.columns[0]] == number)
        menus.append(LayerStrategies(number, name, like, regions, entries))
    return menus


def _reserve(menus: Sequence[LayerStrategies], degree: int | None = None) -> float:
    """Working memory of the repeated layers, at one degree or any: a stage needs the most of its layers', once."""
    counts = Counter(menu.like for menu in menus)
    repeated = [menu for menu in menus if counts[menu.like] > 1] or menus
    return max(
        entry.workspace_bytes
        for menu in repeated
        for t, found in menu.entries.items()
        for entry in found
        if degree in (None, t)
    )


def _layer(menu: LayerStrategies, reserve: float, offload: Offload | None, zero1: bool, bandwidth: float) -> Layer:
    configurations: dict[int, tuple[Configuration, ...]] = {}
    for degree, entries in menu.entries.items():
        found = [_configuration(entry, reserve, zero1) for entry in entries]
        found += offloaded(menu, degree, offload)
        configurations[degree] = tuple(found)
    whole = menu.entries.get(1)
    return Layer(
        id=menu.id,
        name=menu.name,
        configurations=configurations,
        weight_bytes=DUPLEX * whole[0].gradient_bytes if whole else None,
        update_times={degree: _update(entries[0], bandwidth) for degree, entries in menu.entries.items()},
    )


def _update(entry: LayerStrategy, bandwidth: float) -> float:
    """Least time of the optimizer's step: its memory traffic at the device's achievable bandwidth.

    Gradients are read, weights and the optimizer's states are read and written. Weights that are trained have gradients
    of the same size.
    """
    return (3.0 * entry.gradient_bytes + 2.0 * entry.optimizer_bytes) / bandwidth


def _configuration(entry: LayerStrategy, reserve: float, zero1: bool) -> Configuration:
    constant = entry.weight_bytes + entry.gradient_bytes + (0.0 if zero1 else entry.optimizer_bytes)
    return Configuration(
        id=entry.option,
        time=entry.time_s,
        weight_bytes=DUPLEX * entry.gradient_bytes,
        memory_per_microbatch_bytes=entry.activation_bytes,
        memory_bytes=constant + max(entry.workspace_bytes - reserve, 0.0),
        sharded_bytes=entry.optimizer_bytes if zero1 else 0.0,
        forward_time=min(entry.forward_s + entry.forward_communication_s, entry.time_s),
        traffic_time=entry.communication_s,
    )


def _edges(splits: Splits) -> tuple[Edge, ...]:
    """What layers hand to later layers; constants are made where they are read."""
    view, layer = splits.view, splits.layer
    sizes: dict[tuple[int, int], float] = {}
    for tensor in view.graph.tensors:
        producer = tensor.producer
        if producer is None or view.backward[producer] or not view.state[producer]:
            continue
        targets = {layer[v] for v in tensor.consumers if not view.backward[v]} - {layer[producer]}
        for target in targets:
            key = layer[producer], target
            sizes[key] = sizes.get(key, 0.0) + tensor.bytes
    return tuple(Edge(source=a, target=b, bytes=size) for (a, b), size in sorted(sizes.items()))


def _notes(
    menus: list[LayerStrategies],
    modes: dict[int, Modes],
    reserve: float,
    sequence_parallel: bool,
    zero1: bool,
    step: Training | None,
) -> list[str]:
    if step is not None:
        kept = ", ".join(f"{format_bytes(size)} at degree {degree}" for degree, size in sorted(step.reserves.items()))
    else:
        kept = format_bytes(reserve)
    notes = [f"{kept} of each device's memory are set aside for what runs only while a layer does."]
    if zero1:
        notes.append("The data-parallel replicas of a stage share out its optimizer states (ZeRO-1).")
    if sequence_parallel and max(modes) > 1:
        notes.append(
            "Tensor-parallel groups share out tokens where they do not share out features"
            + ("; stages still hand over whole tensors." if step is None else ".")
        )
    mixtures = [menu.name for menu in menus if any(region.kind == "experts" for region in menu.regions)]
    if mixtures and (step is None or max(step.expert) == 1):
        shown = mixtures[0] + (f" and {len(mixtures) - 1} more layers" if len(mixtures) > 1 else "")
        notes.append(
            f"Expert parallelism is not considered: the experts of {shown} are split by their features, each over the "
            "whole tensor-parallel group, and every data-parallel replica has all of them."
        )
    for degree in modes:
        whole: dict[tuple[str, int], list[str]] = {}
        for menu in menus:
            for region in menu.regions:
                if degree > 1 and not region.splits(degree):
                    unit = min(u for u in region.units if u % degree or region.kind == "vocabulary")
                    whole.setdefault((region.kind, unit), []).append(menu.name)
        for (kind, unit), names in whole.items():
            shown = names[0] + (f" and {len(names) - 1} more layers" if len(names) > 1 else "")
            why = f"{unit} words are too few" if kind == "vocabulary" else f"the degree does not divide {unit}"
            notes.append(
                f"Every device of a tensor-parallel group of {degree} does all of the {kind} of {shown}: {why}."
            )
    return notes
