"""The layers of a problem about one optimizer step, from their spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from partita.costs.collectives import OCCUPIED
from partita.costs.optimizer import dtype_bytes
from partita.costs.strategies.context_expert import ContextExpertPricer
from partita.costs.strategies.machines import EvenMachines
from partita.costs.strategies.strategy import LayerStrategy, StrategySpace
from partita.ground.units import format_bytes
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph
from partita.nouns.pipeline import UNSHARED, SharedDegrees
from partita.nouns.topology.read import read_cluster
from partita.problems.hybrid.layer import Configuration, ContextExpertLayers, Edge, Layer
from partita.problems.hybrid.spaces import Offload, StrategySpaces, offloaded, priced_model, pricing_notes, reserve_of
from partita.problems.hybrid.step.degrees import DegreeChoices, choose_degrees, degree_notes, spaces_at_degrees
from partita.problems.hybrid.step.host import HostShare, host_notes, host_of, kept_on_host, updated_on_host
from partita.problems.hybrid.training import LayerState, Training


def step_spaces(
    graph: Graph,
    cluster: Cluster | str | Path,
    training: Training,
    *,
    sharing: DegreeChoices | None = None,
    zero1: bool = False,
    gradient_dtype: str = "parameter",
    host_activations: bool = False,
    host_optimizer: bool = False,
    **pricing: Any,
) -> StrategySpaces:
    """As ``pricing.strategy_spaces``, with what layers cost at every degree that ``sharing`` allows."""
    cluster, sharing = read_cluster(cluster), sharing or DegreeChoices()
    sharing.check()
    model = priced_model(graph, cluster, **pricing)
    host = host_of(cluster, activations=host_activations, optimizer=host_optimizer)

    def layers_at(spaces: Sequence[StrategySpace], shared: SharedDegrees) -> ContextExpertLayers:
        reserves = {degree: reserve_of(spaces, degree) for degree in model.modes}
        offload = model.offload if shared == UNSHARED or callable(model.offload) else None
        handed = [Edge(source=e.source, target=e.target, bytes=e.bytes / shared.context) for e in model.edges]
        found = step_layers(
            spaces, handed, reserves, model.memory_bandwidth, gradient_dtype, model.sequence_parallel, offload, host
        )
        return ContextExpertLayers(**shared._asdict(), layers=found, reserves=reserves)

    pricer_of = ContextExpertPricer(model.pricer, model.machines.levels, sharing.capacity, sharing.once, sharing.reach)
    degrees = choose_degrees(pricer_of, sharing, model.modes, model.machines.count)
    training = msgspec.structs.replace(training, **degrees)
    further = spaces_at_degrees(pricer_of, model.spaces, model.modes, model.options, training)
    whole = layers_at(model.spaces, UNSHARED)
    training = step_training(training, model.machines, whole.reserves)
    kept = ", ".join(f"{format_bytes(size)} at degree {degree}" for degree, size in sorted(training.reserves.items()))
    notes = pricing_notes(model, kept, zero1=zero1, shared=max(training.expert) > 1 or max(training.expert_tensor) > 0)
    states = float(sum(min(space.entries.items())[1][0].optimizer_bytes for space in model.spaces))
    problem = model.problem(
        whole.layers,
        0.0,
        [*notes, *host_notes(host, states), *degree_notes(pricer_of, training, sharing)],
        training=training,
        spreads=tuple(layers_at(spaces, shared) for shared, spaces in further.items()),
    )
    return StrategySpaces(problem, model.spaces, 0.0, further)


def step_training(training: Training, machines: EvenMachines, reserves: dict[int, float]) -> Training:
    """What plans may choose, with the latencies of the links and the working memory at every degree."""
    paths = [path or machines.inside or machines.outside for path in (machines.inside, machines.outside)]
    calls, hops, switched = (
        tuple(0 if path is None else getattr(path, name) for path in paths)
        for name in ("latency_s", "hop_time_s", "switched")
    )
    return msgspec.structs.replace(
        training,
        occupied=OCCUPIED,
        call_times=tuple(map(float, calls)),
        hop_times=tuple(map(float, hops)),
        switched=tuple(map(bool, switched)),
        reserves=reserves,
    )


def step_layers(
    spaces: Sequence[StrategySpace],
    edges: Sequence[Edge],
    reserves: Mapping[int, float],
    bandwidth: float,
    gradient_dtype: str,
    sequence_parallel: bool,
    offload: Offload | None,
    host: HostShare | None = None,
) -> tuple[Layer, ...]:
    """The layers of spaces with their configurations, and their states apart from these.

    ``edges`` are what layers hand over, ``reserves`` by degree the working memory that every stage holds in any case,
    ``bandwidth`` that of each device's memory in bytes per second. A group shares out the tokens of what it hands over
    if ``sequence_parallel``; otherwise its devices gather the parts. ``host`` is where activations or states are kept,
    None if none are.
    """
    known: dict[int, tuple[dict[int, tuple[Configuration, ...]], dict[int, LayerState]]] = {}
    found = []
    for space in spaces:
        before = {edge.source: edge.bytes for edge in edges if edge.target == space.id}
        after = {edge.target: edge.bytes for edge in edges if edge.source == space.id}
        gathers = not sequence_parallel and max(space.entries) > 1
        if space.like not in known or gathers or offload is not None:
            configurations = {}
            for degree, entries in space.entries.items():
                share = (degree - 1) / degree if gathers else 0.0
                tables: dict[str, Any] = {
                    "sync_in_bytes": {layer: size * share for layer, size in before.items() if share},
                    "sync_out_bytes": {layer: size * share for layer, size in after.items() if share},
                }
                rows = [_configuration(entry, reserves[degree], tables) for entry in entries]
                if host is not None and host.activations:
                    rows.append(kept_on_host(entries[0], rows[0], host.link))
                configurations[degree] = (*rows, *offloaded(space, degree, offload))
            states = {d: _state(entries[0], bandwidth, gradient_dtype, host) for d, entries in space.entries.items()}
            known[space.like] = configurations, states
        configurations, states = known[space.like]
        found.append(Layer(id=space.id, name=space.name, configurations=configurations, states=states))
    return tuple(found)


def _configuration(entry: LayerStrategy, reserve: float, tables: Mapping[str, Any]) -> Configuration:
    return Configuration(
        id=entry.option,
        time=entry.time_s,
        memory_per_microbatch_bytes=entry.activation_bytes,
        memory_bytes=max(entry.workspace_bytes - reserve, 0.0),
        forward_time=min(entry.forward_s + entry.forward_communication_s, entry.time_s),
        traffic_time=entry.communication_s,
        **tables,
    )


def _state(entry: LayerStrategy, bandwidth: float, gradient_dtype: str, host: HostShare | None) -> LayerState:
    """Weights with their gradients and states; those of experts that a group shares out apart.

    The optimizer's step takes its memory traffic: gradients are read, weights and states are read and written, on the
    device or on its host.
    """

    def state(weights: float, narrow: float, optimizer: float, trained: int, time: float | None) -> LayerState:
        gradients = narrow if gradient_dtype == "parameter" else max(narrow, trained * dtype_bytes(gradient_dtype))
        found = LayerState(
            parameter_bytes=weights,
            gradient_bytes=float(gradients),
            optimizer_bytes=optimizer,
            update_time=(gradients + 2.0 * narrow + 2.0 * optimizer) / bandwidth,
            weight_gradient_time=time,
        )
        return updated_on_host(found, narrow, host) if host is not None and host.optimizer else found

    weights, gradients, optimizer, trained = entry.of_experts
    rest = state(
        entry.weight_bytes - weights,
        entry.gradient_bytes - gradients,
        entry.optimizer_bytes - optimizer,
        entry.trained - trained,
        entry.weight_gradient_s,
    )
    if not weights:
        return rest
    return msgspec.structs.replace(rest, experts=state(weights, gradients, optimizer, trained, None))
