"""From a model on a cluster to hybrid problems: the settings, one problem for each number of microbatches."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Result, Rival
from partita.ground.errors import InputError
from partita.nouns.graph import Workload
from partita.nouns.pipeline import Plan
from partita.problems.facets.limits import check_training, runtime_for
from partita.problems.facets.model import PER_DEVICE, FromModel, ModelParts, Priced, RefinedPlan
from partita.problems.hybrid.limits import check_layout_on, limited_settings, on_runtime
from partita.problems.hybrid.options import HybridPricing, Options, ScheduleName
from partita.problems.hybrid.problem import HybridProblem, Layer
from partita.problems.hybrid.simulated_step import simulated_step
from partita.problems.hybrid.step.layout import Layout, check_layout, layout_plan, parse_layout
from partita.problems.hybrid.step.spreads import Sharing
from partita.problems.hybrid.training import ZERO_STAGES, Training

if TYPE_CHECKING:
    from partita.costs.strategies.strategy import LayerStrategies
    from partita.nouns.cluster import Cluster
    from partita.nouns.graph import Graph

#: Schedules that are looked at unless others are asked for.
PLANNED: tuple[ScheduleName, ...] = ("1f1b", "interleaved", "zero-bubble")
#: Settings that what layers cost depends on, and that a runtime may change.
_PRICED = (
    "tensor_parallel_degrees",
    "context_parallel_degrees",
    "expert_parallel_degrees",
    "sequence_parallel",
)
#: Samples of a microbatch that are looked at.
_SIZES = (1, 2, 4, 8, 16)

Change = Callable[[HybridProblem], HybridProblem]
Answered = tuple[Priced[HybridProblem], Result[HybridProblem, Any, Any]]


class HybridFromModel(FromModel[HybridProblem]):
    """Training on devices of few kinds; the layers are priced once for all numbers of microbatches."""

    pricing = HybridPricing
    workloads = preferred = (Workload.TRAINING,)

    def refusal(self, cluster: Cluster) -> str | None:
        from partita.costs.strategies.machines import uneven
        from partita.problems.hybrid.mixed import uneven_kinds

        if len(cluster.workers()) > 1:
            wrong = uneven_kinds(cluster)
            return None if wrong is None else f"{wrong}; hybrid plans need machines of one kind of devices each, alike"
        wrong = uneven(cluster)
        return None if wrong is None else f"{wrong}, and hybrid plans need machines that are alike"

    def usual(self, graph: Graph, cluster: Cluster) -> Mapping[str, Any]:
        devices = sum(len(group.indices) for group in cluster.groups() if group.spec.accelerator)
        return {"microbatches": (PER_DEVICE * max(1, devices),)}

    def check(self, settings: HybridPricing, cluster: Cluster) -> None:
        check_settings(settings)
        if settings.layout is not None:
            parse_layout(settings.layout)

    def price(
        self, graph: Graph, cluster: Cluster, settings: HybridPricing, change: Change | None = None
    ) -> Sequence[Priced[HybridProblem]]:
        """One problem for each number of microbatches; with a global batch one for each size of a microbatch."""
        check_settings(settings)
        if settings.global_batch is None:
            if not settings.microbatches:
                raise InputError("the number of microbatches is not stated; give microbatches=(32,), for example")
            return self._price_limited(graph, cluster, settings, change)
        found: list[Priced[HybridProblem]] = []
        for samples in microbatch_sizes(settings, graph.samples):
            traced = graph if samples == graph.samples else settings.trace(samples)
            number = settings.global_batch // samples
            sized = msgspec.structs.replace(settings, microbatches=(number,))
            found += self._price_limited(traced, cluster, sized, change)
        return found

    def _price_limited(
        self, graph: Graph, cluster: Cluster, settings: HybridPricing, change: Change | None
    ) -> list[Priced[HybridProblem]]:
        """As ``_price_each``, and if a runtime is named what that runs, beside what it leaves out."""
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
            problem, training = one.problem, one.problem.training
            if training is not None and settings.layout is None:
                limited = msgspec.structs.replace(training, schedules=within.schedule, zero=tuple(sorted(within.zero)))
                problem = problem.replace(training=limited)
            problem = on_runtime(problem, graph, one.details, runtime, meshes)
            kept = msgspec.structs.replace(settings, sequence_parallel=within.sequence_parallel)
            found.append(dataclasses.replace(one, problem=problem, settings=kept, free=other.problem))
        return found

    def _price_each(
        self, graph: Graph, cluster: Cluster, settings: HybridPricing, change: Change | None
    ) -> list[Priced[HybridProblem]]:
        from partita.costs.table import cost_source
        from partita.problems.hybrid.mixed import priced_on_kinds
        from partita.problems.hybrid.pricing import MEMORY_OPTIONS, LayerMenus, layer_menus

        layout = None if settings.layout is None else parse_layout(settings.layout)
        degrees = settings.tensor_parallel_degrees or None

        def suit(menus: LayerMenus) -> HybridProblem:
            if menus.problem.training is None:
                return menus.problem
            return even_degrees(menus.problem, menus.layers, stated=bool(degrees or layout))

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
            sharing = dataclasses.replace(sharing, context=(1,), expert=(1,))
        menus = (partial(priced_on_kinds, suit=suit) if mixed else layer_menus)(
            graph,
            cluster,
            microbatches=settings.microbatches[0],
            optimizer=settings.optimizer,
            optimizer_dtype=settings.optimizer_dtype,
            master_weights=settings.master_weights,
            zero1=settings.zero1,
            sequence_parallel=settings.sequence_parallel if layout is None else layout.sequence_parallel,
            degrees=degrees if layout is None else (layout.tensor,),
            memory_options=settings.recompute_options or MEMORY_OPTIONS,
            offload=settings.offload,
            costs=cost_source(settings.costs),
            fused=settings.fused,
            name=settings.name,
            training=training_of(settings, layout),
            gradient_dtype=settings.gradient_dtype,
            sharing=sharing,
            host_activations=settings.offload_activations,
        )
        found = []
        for number in settings.microbatches:
            problem = menus.problem.replace(microbatches=number)
            if not mixed:
                problem = suit(LayerMenus(problem, menus.layers, menus.reserve_bytes))
            found.append(Priced(problem if change is None else change(problem), graph, cluster, settings, menus))
        return found

    def stated(self, priced: Priced[Any]) -> Plan | None:
        if priced.settings.layout is None:
            return None
        layout = parse_layout(priced.settings.layout)
        check_layout(priced.problem, layout)
        return layout_plan(priced.problem, layout)

    def parts(self, priced: Priced[HybridProblem], plan: Plan) -> ModelParts:
        from partita.problems.hybrid.parts import plan_parts

        return plan_parts(priced, plan)

    def choose(self, answers: Sequence[Answered]) -> int:
        """The shortest step per sample; without any plan the last candidate, which leaves most freedom."""
        worth = {
            place: simulated_step(result.problem, result.plan, result.evaluation).per_sample
            for place, (_, result) in enumerate(answers)
            if result.plan is not None and result.evaluation is not None
        }
        return min(worth, key=lambda place: worth[place]) if worth else len(answers) - 1

    def search_options(self, priced: Priced[Any], options: Options) -> Options:
        if options.machine_devices is not None:
            return options
        # Tensor parallelism stays inside the machines of the cluster.
        sizes = Counter(priced.cluster.machine_of())
        return msgspec.structs.replace(options, machine_devices=min(sizes.values()))

    def refine(
        self, priced: Priced[Any], result: Result[Any, Any, Any], rows: Sequence[Rival], options: Any, monitor: Monitor
    ) -> RefinedPlan:
        from partita.problems.hybrid.shorter_step import shorter_steps
        from partita.problems.hybrid.solvers.free import bound_of_free

        training = result.problem.training
        if training is None:
            return shorter_steps(result, rows, options, monitor)
        if priced.settings.layout is not None or training.mesh == "free" or result.problem.others:
            return RefinedPlan(by_objective=priced.settings.layout is None)
        return RefinedPlan(wider_bound=bound_of_free(result, options, monitor))


def check_settings(settings: HybridPricing) -> None:
    """Refuse settings that contradict each other."""
    steady = settings.minimise == "steady"
    if steady and settings.mesh == "uniform":
        raise InputError("--mesh uniform is for steps; leave it out, or --minimise steady")
    asked = {
        "--layout": settings.layout,
        "--schedule": settings.schedule,
        "--zero": settings.zero,
        "--context-parallel-degrees": settings.context_parallel_degrees,
        "--expert-parallel-degrees": settings.expert_parallel_degrees,
    }
    for flag, value in asked.items():
        if value and steady:
            raise InputError(f"{flag} is for steps; leave it out, or --minimise steady")
    if settings.layout and settings.mesh == "free":
        raise InputError("--layout is a uniform mesh; leave it out, or --mesh free")
    if settings.offload_activations and steady:
        raise InputError("--offload-activations is for steps; leave it out, or --minimise steady")
    for stage in settings.zero:
        if stage not in ZERO_STAGES:
            raise InputError(f"--zero {stage} is no stage of ZeRO; give {', '.join(map(str, ZERO_STAGES))}")
    if settings.zero1 and settings.zero:
        raise InputError("--zero1 and --zero say the same; leave --zero1 out")


def training_of(settings: HybridPricing, layout: Layout | None) -> Training | None:
    """What plans of a step may choose; None for the time per sample."""
    overlap = settings.weight_sync == "behind"
    if layout is not None:
        return Training(schedules=(layout.runs,), zero=(layout.zero,), overlap=overlap and layout.overlap)
    if settings.minimise == "steady":
        return None
    zero = settings.zero or ((1,) if settings.zero1 else ZERO_STAGES)
    return Training(
        schedules=settings.schedule or PLANNED,
        zero=tuple(sorted(zero)),
        mesh=settings.mesh or "uniform",
        overlap=overlap,
    )


def sharing_of(settings: HybridPricing, layout: Layout | None) -> Sharing:
    """What devices may share out beside features."""
    if layout is not None:
        return Sharing((layout.context,), (layout.expert,), settings.expert_capacity)
    asked = settings.context_parallel_degrees or None, settings.expert_parallel_degrees or None
    return Sharing(*asked, settings.expert_capacity)


def microbatch_sizes(settings: HybridPricing, samples: int) -> list[int]:
    """Samples of a microbatch to look at: powers of two that divide the global batch, if the model can be traced again.

    Raises
    ------
    InputError
        If the only size there is does not divide the global batch.
    """
    batch = settings.global_batch or 0
    if settings.trace is not None and settings.layout is None:
        return [size for size in _SIZES if batch % size == 0]
    if batch % samples:
        raise InputError(
            f"the global batch of {batch} samples is no multiple of the {samples} of a microbatch; change one of them"
        )
    return [samples]


def even_degrees(problem: HybridProblem, menus: Sequence[LayerStrategies], *, stated: bool) -> HybridProblem:
    """A problem about a step without the tensor-parallel degrees that do not divide what a layer splits.

    Runtimes do not run these. Words of a vocabulary are padded, so that any degree divides them.

    Raises
    ------
    InputError
        If the degrees were ``stated``.
    """
    uneven: dict[int, str] = {}
    for menu in menus:
        for region in menu.regions:
            for degree in menu.entries:
                if degree in uneven or region.kind == "vocabulary" or region.splits(degree):
                    continue
                unit = next(unit for unit in region.units if unit % degree)
                what = {"attention": "heads", "experts": "features of experts"}.get(region.kind, "features")
                uneven[degree] = f"tensor-parallel degree {degree} does not divide the {unit} {what} of {menu.name}"
    if not uneven:
        return problem
    if stated:
        raise InputError(f"{next(iter(uneven.values()))}; take another degree")

    def even(layer: Layer) -> Layer:
        kept = {t: row for t, row in layer.configurations.items() if t not in uneven}
        return msgspec.structs.replace(layer, configurations=kept)

    notes = (*problem.notes, *(f"{text[0].upper()}{text[1:]}, so that it is left out." for text in uneven.values()))
    return problem.with_layers(even).replace(notes=notes)
