"""The layers of a training graph with what they can do and cost on a cluster, whatever is minimised."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partita.costs.elementwise_chains import fuse_pointwise
from partita.costs.optimizer import check_optimizer
from partita.costs.precision import find_product_format, narrow_products
from partita.costs.roofline import CostSource, Roofline
from partita.costs.strategies.layers import find_splits
from partita.costs.strategies.machines import EvenMachines, find_machines
from partita.costs.strategies.modes import Modes, Splits, assign_modes
from partita.costs.strategies.pricing import LayerPricer, OptimizerSettings, RuntimeWays, first_alike
from partita.costs.strategies.strategy import LayerStrategy, StrategySpace
from partita.costs.strategies.view import GraphView
from partita.ground.checks import check_at_least
from partita.ground.errors import InputError
from partita.nouns.catalogue.specs import DeviceSpec
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph
from partita.nouns.pipeline import SharedDegrees
from partita.nouns.topology.read import read_cluster
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import Hierarchy, HybridProblem

#: Ways to save memory that can be asked for; ``none`` is always there.
MEMORY_OPTIONS = ("none", "selective", "full")

#: One more that runs again all but products and attention, such as norms and activation functions; it is for layouts.
ELEMENTWISE = "elementwise"

_NARROW_NOTE = "The products of weights in repeated layers run in {}; exports do not say so to runtimes."

#: A user's own ways to run a layer: for the entry without recomputation, the configurations to add.
Offload = (
    Callable[[LayerStrategy], Configuration | Sequence[Configuration] | None]
    | Mapping[str, Mapping[int, Configuration | Sequence[Configuration]]]
)


@dataclass(frozen=True)
class StrategySpaces:
    """A hybrid problem with what its numbers are made of."""

    problem: HybridProblem  #: The problem.
    layers: tuple[StrategySpace, ...]  #: What each of its layers can do and costs, in the same order.
    #: Working memory that was taken off every device's limit; 0 for a step, whose stages hold it themselves.
    reserve_bytes: float
    #: Of a step, what the layers cost where devices share out the sequence and experts.
    by_degrees: dict[SharedDegrees, tuple[StrategySpace, ...]] = dataclasses.field(default_factory=dict)


def model_flops(graph: Graph) -> float:
    """Floating-point operations of one microbatch, forward and backward, a multiply-add being two.

    Products, convolutions and attention are counted, recomputation is not: model FLOPs utilisation is this, times the
    microbatches per second, over the peak of all devices (Chowdhery et al., "PaLM", 2022, Appendix B).
    """
    return float(graph.flops)


def utilisation(graph: Graph, cluster: Cluster, time_per_microbatch: float, devices: int | None = None) -> float:
    """Model FLOPs utilisation: ``model_flops`` over what all devices, or so many of one kind, could do in that time.

    Their peak is that of the accelerators at the number format with the most operations.
    """
    flops: Counter[str] = Counter()
    for op in graph.operators:
        flops[op.dtype] += op.flops
    ((dtype, _),) = flops.most_common(1)
    groups = cluster.workers()
    counts = [len(group.indices) for group in groups] if devices is None else [devices]
    peak = sum(group.spec.peak(dtype) * count for group, count in zip(groups, counts, strict=True))
    return model_flops(graph) / (time_per_microbatch * peak) if time_per_microbatch > 0 else 0.0


@dataclass(frozen=True)
class PricedModel:
    """A model's layers with what they can do and cost on the devices of a cluster, whatever is minimised."""

    #: The model, perhaps with fused operators; where times come from; and the devices.
    graph: Graph
    source: CostSource
    machines: EvenMachines
    #: Of the problem.
    microbatches: int
    name: str
    #: What prices the layers, and how they are split at each tensor-parallel degree.
    pricer: LayerPricer
    modes: dict[int, Modes]
    #: As for ``priced_model``.
    options: Sequence[str]
    sequence_parallel: bool
    offload: Offload | None
    #: What each layer can do and costs, and what layers hand to later ones.
    spaces: tuple[StrategySpace, ...]
    edges: tuple[Edge, ...]
    notes: tuple[str, ...] = ()  #: What a reader should know of the format of products.

    @property
    def memory_bandwidth(self) -> float:
        """Bytes per second of each device's memory."""
        return self.machines.device.memory_bandwidth_bytes_per_s * self.machines.device.memory_efficiency

    def problem(self, layers: tuple[Layer, ...], reserve: float, notes: Sequence[str], **fields: Any) -> HybridProblem:
        """The problem with these layers, ``reserve`` bytes taken off every device's limit, and further fields."""
        machines, hierarchy = self.machines, None
        if machines.machine_bandwidth_bytes_per_s is not None:
            hierarchy = Hierarchy(
                devices_per_machine=machines.per_machine,
                machine_bandwidth_bytes_per_unit=machines.machine_bandwidth_bytes_per_s,
            )
        return HybridProblem(
            name=self.name,
            devices=machines.count,
            memory_bytes=max(float(machines.device.usable_bytes) - reserve, 0.0),
            bandwidth_bytes_per_unit=machines.bandwidth_bytes_per_s,
            microbatches=self.microbatches,
            microbatch_samples=self.graph.samples,
            layers=layers,
            edges=self.edges,
            unit="s",
            hierarchy=hierarchy,
            notes=(*self.graph.notes, *self.source.notes(self.graph), *machines.notes, *self.notes, *notes),
            **fields,
        )


def priced_model(
    graph: Graph,
    cluster: Cluster | str | Path,
    *,
    microbatches: int,
    optimizer: str = "adam",
    optimizer_dtype: str = "float32",
    master_weights: bool | None = None,
    sequence_parallel: bool = True,
    gather_again: bool = True,
    degrees: Sequence[int] | None = None,
    memory_options: Sequence[str] = MEMORY_OPTIONS,
    offload: Offload | None = None,
    costs: CostSource | None = None,
    fused: bool | None = None,
    precision: str = "bf16",
    behind: Sequence[str] = (),
    issue_s: float = 0.0,
    name: str | None = None,
) -> PricedModel:
    """Price the layers of a model on a cluster, in seconds and bytes.

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
    precision
        Format of the products of weights in repeated layers (``partita.costs.precision``).
    behind, issue_s
        Exchanges that the runtime hides behind work (``tensor``, ``expert``), and time to issue a kernel that it does
        not record (``partita.costs.strategies.pricing.RuntimeWays``).
    name
        The problem's name; the graph's and cluster's names unless stated.

    Raises
    ------
    InputError
        If the graph has no backward part, or an option is unknown or out of range.
    UnsupportedError
        If the cluster has several kinds of accelerators, or something is asked for that is not modelled.
    """
    cluster = read_cluster(cluster)
    _check(graph, microbatches, optimizer, optimizer_dtype, memory_options)
    machines = find_machines(cluster)
    chosen = machines.degrees(degrees)
    source: CostSource = Roofline() if costs is None else costs
    form = find_product_format(precision)
    splits = find_splits(GraphView(graph))
    if form.dtype:
        inner = {number for number, found in enumerate(splits.names) if found.rpartition(".")[2].isdigit()}
        graph = narrow_products(graph, form, frozenset(v for v, number in enumerate(splits.layer) if number in inner))
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
        ways=RuntimeWays(frozenset(behind), issue_s),
    )
    modes = {degree: assign_modes(splits, degree, sequence_parallel, again=gather_again) for degree in chosen}
    spaces = _spaces(pricer, modes, memory_options)
    _check_offload(offload, splits.names, chosen)
    return PricedModel(
        graph,
        source,
        machines,
        microbatches,
        f"{graph.name} on {cluster.name}" if name is None else name,
        pricer,
        modes,
        memory_options,
        sequence_parallel,
        offload,
        tuple(spaces),
        _edges(splits),
        (_NARROW_NOTE.format(form.name),) if form.dtype else (),
    )


# -- checks and times -----------------------------------------------------------------------------------------------


def _check(graph: Graph, microbatches: int, optimizer: str, dtype: str, options: Sequence[str]) -> None:
    if not any(op.phase == "backward" for op in graph.operators):
        raise InputError(f"graph {graph.name!r} has no backward part; trace the model for training")
    check_at_least("microbatches", microbatches)
    check_optimizer(optimizer, dtype)
    for option in options:
        if option not in (known := (*MEMORY_OPTIONS, ELEMENTWISE)):
            raise InputError(f"memory option is {option!r}; it must be one of {', '.join(known)}")


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


def _spaces(pricer: LayerPricer, modes: dict[int, Modes], options: Sequence[str]) -> list[StrategySpace]:
    splits = pricer.splits
    spaces: list[StrategySpace] = []
    for number, like in enumerate(first_alike(pricer, modes)):
        name = splits.names[number]
        if like != number:
            entries = {
                degree: tuple(dataclasses.replace(entry, layer=name) for entry in found)
                for degree, found in spaces[like].entries.items()
            }
        else:
            entries = {degree: pricer.entries(number, found, options) for degree, found in modes.items()}
        regions = tuple(r for r in splits.regions if splits.layer[r.columns[0]] == number)
        spaces.append(StrategySpace(number, name, like, regions, entries))
    return spaces


def reserve_of(spaces: Sequence[StrategySpace], degree: int | None = None) -> float:
    """Working memory of the repeated layers, at one degree or any: a stage needs the most of its layers', once."""
    counts = Counter(space.like for space in spaces)
    repeated = [space for space in spaces if counts[space.like] > 1] or spaces
    return max(
        entry.workspace_bytes
        for space in repeated
        for t, found in space.entries.items()
        for entry in found
        if degree in (None, t)
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


def offloaded(space: StrategySpace, degree: int, offload: Offload | None) -> list[Configuration]:
    """A user's own configurations of a layer at a degree."""
    if offload is None:
        return []
    if callable(offload):
        found = offload(space.entry(degree))
    else:
        found = offload.get(space.name, {}).get(degree)
    if found is None:
        return []
    return [found] if isinstance(found, Configuration) else list(found)


def pricing_notes(model: PricedModel, kept: str, *, zero1: bool, handed: str = "", shared: bool = False) -> list[str]:
    """What a reader should know of the layers.

    ``kept`` is the memory that is set aside, in words, and ``handed`` what follows on tokens that groups share out;
    ``zero1`` says whether replicas share out optimizer states, ``shared`` whether experts may be shared out.
    """
    spaces, modes = model.spaces, model.modes
    notes = [f"{kept} of each device's memory are set aside for what runs only while a layer does."]
    if zero1:
        notes.append("The data-parallel replicas of a stage share out its optimizer states (ZeRO-1).")
    if model.sequence_parallel and max(modes) > 1:
        notes.append(f"Tensor-parallel groups share out tokens where they do not share out features{handed}.")
    mixtures = [space.name for space in spaces if any(region.kind == "experts" for region in space.regions)]
    if mixtures and not shared:
        shown = mixtures[0] + (f" and {len(mixtures) - 1} more layers" if len(mixtures) > 1 else "")
        notes.append(
            f"Expert parallelism is not considered: the experts of {shown} are split by their features, each over the "
            "whole tensor-parallel group, and every data-parallel replica has all of them."
        )
    for degree in modes:
        whole: dict[tuple[str, int], list[str]] = {}
        for space in spaces:
            for region in space.regions:
                if degree > 1 and not region.splits(degree):
                    unit = min(u for u in region.units if u % degree or region.kind == "vocabulary")
                    whole.setdefault((region.kind, unit), []).append(space.name)
        for (kind, unit), names in whole.items():
            shown = names[0] + (f" and {len(names) - 1} more layers" if len(names) > 1 else "")
            why = f"{unit} words are too few" if kind == "vocabulary" else f"the degree does not divide {unit}"
            notes.append(
                f"Every device of a tensor-parallel group of {degree} does all of the {kind} of {shown}: {why}."
            )
    return notes
