"""From a model on a cluster to problems about the time per sample, one for each number of microbatches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from partita.costs.strategies.strategy import LayerStrategy, StrategySpace
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Result, Rival
from partita.ground.errors import InputError
from partita.ground.units import format_bytes
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph
from partita.nouns.pipeline import Plan
from partita.problems.facets.limits import runtime_for
from partita.problems.facets.model import ModelParts, Priced, RefinedPlan
from partita.problems.hybrid.layer import Configuration, Layer
from partita.problems.hybrid.options import HybridPricing
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.spaces import (
    PricedModel,
    StrategySpaces,
    offloaded,
    priced_model,
    pricing_notes,
    reserve_of,
)
from partita.problems.hybrid.trained_model import Change, TrainedModel, by_microbatches, plan_parts, pricing_settings


class SteadyFromModel(TrainedModel):
    """Each stage has degrees of its own, on devices of one kind."""

    def price(
        self, graph: Graph, cluster: Cluster, settings: HybridPricing, change: Change | None = None
    ) -> Sequence[Priced[HybridProblem]]:
        runtime = runtime_for(settings.runtime, graph.workload)
        if runtime is not None:
            raise InputError(
                f"{runtime.name} has one mesh for all stages, which is planned for a step; leave --minimise steady out"
            )
        if len(cluster.workers()) > 1:
            raise InputError(
                f"cluster {cluster.name} has several kinds of devices; plans for them are of steps, "
                "so leave --minimise steady out"
            )
        spaces = steady_spaces(graph, cluster, **pricing_settings(settings))
        return by_microbatches(spaces.problem, graph, cluster, settings, spaces, change)

    def parts(self, priced: Priced[HybridProblem], plan: Plan) -> ModelParts:
        settings = priced.settings
        return plan_parts(
            priced,
            plan,
            zero=int(settings.zero1),
            sequence_parallel=settings.sequence_parallel,
            overlap=False,
            gradient_dtype="parameter",
        )

    def refine(
        self, priced: Priced[Any], result: Result[Any, Any, Any], rows: Sequence[Rival], options: Any, monitor: Monitor
    ) -> RefinedPlan:
        from partita.problems.hybrid.steady.shorter_step import shorter_steps

        return shorter_steps(result, rows, options, monitor)


#: The paper adds up what replicas send and receive of every weight; links of the catalogue carry both at once.
DUPLEX = 0.5


def steady_spaces(
    graph: Graph, cluster: Cluster | str | Path, *, zero1: bool = False, **pricing: Any
) -> StrategySpaces:
    """As ``pricing.strategy_spaces``: configurations hold weights, gradients and optimizer states."""
    model = priced_model(graph, cluster, **pricing)
    reserve = reserve_of(model.spaces)
    notes = pricing_notes(model, format_bytes(reserve), zero1=zero1, handed="; stages still hand over whole tensors")
    layers = tuple(_layer(model, space, reserve, zero1) for space in model.spaces)
    problem = model.problem(layers, reserve, notes, weight_sync_per_batch=True, update_shared=zero1)
    return StrategySpaces(problem, model.spaces, reserve)


def _layer(model: PricedModel, space: StrategySpace, reserve: float, zero1: bool) -> Layer:
    configurations: dict[int, tuple[Configuration, ...]] = {}
    for degree, entries in space.entries.items():
        found = [_configuration(entry, reserve, zero1) for entry in entries]
        found += offloaded(space, degree, model.offload)
        configurations[degree] = tuple(found)
    whole = space.entries.get(1)
    return Layer(
        id=space.id,
        name=space.name,
        configurations=configurations,
        weight_bytes=DUPLEX * whole[0].gradient_bytes if whole else None,
        update_times={degree: _update(entries[0], model.memory_bandwidth) for degree, entries in space.entries.items()},
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
