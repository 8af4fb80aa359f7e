"""From a model on a cluster to problems about a step, one for each number of microbatches."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from partita.costs.strategies.strategy import StrategySpace
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Result, Rival
from partita.ground.errors import InputError
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph
from partita.nouns.pipeline import Plan
from partita.problems.facets.limits import check_training, runtime_for
from partita.problems.facets.model import ModelParts, Priced, RefinedPlan
from partita.problems.hybrid.blocks import find_blocks
from partita.problems.hybrid.layer import Layer
from partita.problems.hybrid.options import HybridPricing, ScheduleName
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.spaces import StrategySpaces
from partita.problems.hybrid.step.degrees import DegreeChoices
from partita.problems.hybrid.step.evaluate import is_free
from partita.problems.hybrid.step.free_stages import stage_starts
from partita.problems.hybrid.step.layout import MeshLayout, check_layout, options_of, parse_layout, shares_tokens
from partita.problems.hybrid.step.least_recompute import stated_plan
from partita.problems.hybrid.step.mixed import priced_on_kinds
from partita.problems.hybrid.step.pricing import step_spaces
from partita.problems.hybrid.step.runtimes import check_layout_on, limited_settings, on_runtime
from partita.problems.hybrid.trained_model import Change, TrainedModel, by_microbatches, plan_parts, pricing_settings
from partita.problems.hybrid.training import ZERO_STAGES, Training

#: Schedules that are looked at unless others are asked for.
PLANNED: tuple[ScheduleName, ...] = ("1f1b", "interleaved", "zero-bubble")
#: Up to so many blocks, and by so many, models are dealt out equally.
_FEW_BLOCKS, _STAGES = 16, 4
#: Settings that what layers cost depends on, and that a runtime may change.
_PRICED = (
    "tensor_parallel_degrees",
    "context_parallel_degrees",
    "expert_parallel_degrees",
    "expert_tensor_parallel_degrees",
    "sequence_parallel",
)


class StepFromModel(TrainedModel):
    """Degrees that runtimes have, on one kind of devices or several; a layout is priced without search."""

    def price(
        self, graph: Graph, cluster: Cluster, settings: HybridPricing, change: Change | None = None
    ) -> Sequence[Priced[HybridProblem]]:
        """If a runtime is named what that runs, beside what it leaves out."""
        runtime = runtime_for(settings.runtime, graph.workload)
        if runtime is None:
            return self._price_each(graph, cluster, settings, change)
        if len(cluster.workers()) > 1:
            raise InputError(
                f"--runtime {runtime.name} is for devices of one kind, and cluster {cluster.name} has several; "
                "leave it out, or take --objective throughput"
            )
        within = limited_settings(settings, runtime, PLANNED)
        layout = None if settings.layout is None else parse_layout(settings.layout)
        if layout is not None:
            check_layout_on(layout, runtime)
        meshes = check_training(
            runtime,
            graph,
            settings,
            gradient_dtype=settings.gradient_dtype,
            sequence_parallel=within.sequence_parallel if layout is None else layout.sequence_parallel,
        )
        found = []
        free = self._price_each(graph, cluster, settings, change)
        same = all(getattr(within, name) == getattr(settings, name) for name in _PRICED)
        priced = free if same else self._price_each(graph, cluster, within, change)
        for one, other in zip(priced, free, strict=True):
            problem = one.problem
            if settings.layout is None:
                limited = msgspec.structs.replace(
                    problem.step, schedules=within.schedule, zero=tuple(sorted(within.zero))
                )
                problem = problem.replace(training=limited)
            problem = on_runtime(problem, graph, one.details, runtime, meshes)
            kept = msgspec.structs.replace(settings, sequence_parallel=within.sequence_parallel)
            found.append(dataclasses.replace(one, problem=problem, settings=kept, free=other.problem))
        return found

    def _price_each(
        self, graph: Graph, cluster: Cluster, settings: HybridPricing, change: Change | None
    ) -> list[Priced[HybridProblem]]:
        layout = None if settings.layout is None else parse_layout(settings.layout)
        stated = bool(settings.tensor_parallel_degrees or layout)

        def suit(spaces: StrategySpaces) -> HybridProblem:
            problem = even_degrees(spaces.problem, spaces.layers, stated=stated)
            if layout is None and not mixed and problem.step.mesh == "uniform":
                problem = with_unlike_parts(problem, settings.uneven)
            return problem

        mixed = len(cluster.workers()) > 1
        sharing = sharing_of(settings, layout)
        if mixed:
            if layout is not None:
                raise InputError(f"--layout is for devices of one kind; cluster {cluster.name} has several")
            if sharing.asks:
                raise InputError(
                    f"context- and expert-parallel degrees are for devices of one kind, and cluster {cluster.name} has "
                    "several; leave them out"
                )
            if any(settings.zero_shards):
                raise InputError(
                    f"--zero-shards is for devices of one kind, and cluster {cluster.name} has several; leave it out"
                )
            sharing = dataclasses.replace(sharing, context=(1,), expert=(1,), expert_tensor=(0,))
        asked = pricing_settings(settings)
        if layout is not None:
            asked |= {"sequence_parallel": layout.sequence_parallel, "degrees": (layout.tensor,)}
            asked["memory_options"] = options_of(layout, asked["memory_options"])
        spaces = (partial(priced_on_kinds, suit=suit) if mixed else step_spaces)(
            graph,
            cluster,
            training_of(settings, layout),
            gradient_dtype=settings.gradient_dtype,
            sharing=sharing,
            host_activations=settings.offload_activations,
            host_optimizer=settings.offload_optimizer,
            **asked,
        )
        return by_microbatches(spaces.problem if mixed else suit(spaces), graph, cluster, settings, spaces, change)

    def stated(self, priced: Priced[Any]) -> Plan | None:
        if priced.settings.layout is None:
            return None
        layout = parse_layout(priced.settings.layout)
        check_layout(priced.problem, layout)
        return stated_plan(priced.problem, layout)

    def parts(self, priced: Priced[HybridProblem], plan: Plan) -> ModelParts:
        settings, problem = priced.settings, priced.problem
        return plan_parts(
            priced,
            plan,
            stage_starts(problem, plan.stages) if is_free(problem, plan) else None,
            zero=plan.zero,
            zero_shards=plan.zero_shards,
            sequence_parallel=shares_tokens(settings),
            overlap=problem.step.overlap,
            gradient_dtype=settings.gradient_dtype,
        )

    def refine(
        self, priced: Priced[Any], result: Result[Any, Any, Any], rows: Sequence[Rival], options: Any, monitor: Monitor
    ) -> RefinedPlan:
        from partita.problems.hybrid.step.solvers.free import bound_of_free

        searched = priced.settings.layout is None
        if not searched or result.problem.step.mesh == "free" or result.problem.others:
            return RefinedPlan(by_objective=searched)
        return RefinedPlan(wider_bound=bound_of_free(result, options, monitor))


def with_unlike_parts(problem: HybridProblem, asked: bool | None) -> HybridProblem:
    """A problem whose interleaved parts may have unlike numbers of layers, if that is asked for, or they rarely can be.

    Pipelines have 2, 4, 8, … stages; blocks that are no multiple of four are not dealt out to them equally. Models that
    are no row of like blocks have no interleaved schedule unless it is asked for.
    """
    if asked is None:
        blocks = len(find_blocks([problem.layers[place] for place in problem.order()]).starts)
        # Where no blocks are found every layer counts as one.
        asked = _FEW_BLOCKS < blocks < len(problem.layers) and blocks % _STAGES != 0
    return problem.replace(training=msgspec.structs.replace(problem.step, uneven=asked)) if asked else problem


def training_of(settings: HybridPricing, layout: MeshLayout | None) -> Training:
    """What plans may choose."""
    overlap = settings.weight_sync == "behind"
    if layout is not None:
        return layout.training(overlap=overlap)
    zero = settings.zero or ((1,) if settings.zero1 else ZERO_STAGES)
    return Training(
        schedules=settings.schedule or PLANNED,
        zero=tuple(sorted(zero)),
        zero_shards=tuple(sorted(settings.zero_shards)) or (0,),
        mesh=settings.mesh or "uniform",
        overlap=overlap,
    )


def sharing_of(settings: HybridPricing, layout: MeshLayout | None) -> DegreeChoices:
    """What devices may share out beside features."""
    once = settings.expert_dispatch == "tokens"
    if layout is not None:
        return DegreeChoices.of(layout.shared, settings.expert_capacity, once)
    return DegreeChoices(
        settings.context_parallel_degrees or None,
        settings.expert_parallel_degrees or None,
        settings.expert_capacity,
        once,
        expert_tensor=settings.expert_tensor_parallel_degrees or None,
    )


def even_degrees(problem: HybridProblem, spaces: Sequence[StrategySpace], *, stated: bool) -> HybridProblem:
    """A problem about a step without the tensor-parallel degrees that do not divide what a layer splits.

    Runtimes do not run these: an InputError if they were ``stated``. Words of a vocabulary are padded, so that any
    degree divides them.
    """
    uneven: dict[int, str] = {}
    for space in spaces:
        for region in space.regions:
            for degree in space.entries:
                if degree in uneven or region.kind == "vocabulary" or region.splits(degree):
                    continue
                unit = next(unit for unit in region.units if unit % degree)
                what = {"attention": "heads", "scan": "groups of heads", "experts": "features of experts"}.get(
                    region.kind, "features"
                )
                uneven[degree] = f"tensor-parallel degree {degree} does not divide the {unit} {what} of {space.name}"
    if not uneven:
        return problem
    if stated:
        raise InputError(f"{next(iter(uneven.values()))}; take another degree")

    def even(layer: Layer) -> Layer:
        kept = {t: row for t, row in layer.configurations.items() if t not in uneven}
        return msgspec.structs.replace(layer, configurations=kept)

    notes = (*problem.notes, *(f"{text[0].upper()}{text[1:]}, so that it is left out." for text in uneven.values()))
    return problem.with_layers(even).replace(notes=notes)
