"""From a model on a cluster to a throughput problem: the settings, what is usual, and what a runtime can run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from partita.costs.chain import chain_of
from partita.costs.packed import with_packed_weights
from partita.ground.errors import InputError
from partita.nouns.catalogue.meshes import Mesh
from partita.nouns.catalogue.runtimes import Runtime
from partita.nouns.graph import Workload
from partita.nouns.pipeline import Plan, Stage
from partita.nouns.split import StagePart
from partita.problems.facets.limits import check_training, coarsest, devices_for, runtime_for
from partita.problems.facets.model import PER_DEVICE, FromModel, ModelParts, Priced, Pricing
from partita.problems.throughput.options import ThroughputOptions, ThroughputPricing
from partita.problems.throughput.pricing import price
from partita.problems.throughput.problem import ThroughputProblem, UnitChain

if TYPE_CHECKING:
    from partita.nouns.cluster import Cluster
    from partita.nouns.graph import Graph

Change = Callable[[ThroughputProblem], ThroughputProblem]


class ThroughputFromModel(FromModel[ThroughputProblem]):
    """Every model on every cluster is one problem."""

    pricing = ThroughputPricing
    preferred = (Workload.INFERENCE,)

    def usual(self, graph: Graph, cluster: Cluster) -> Mapping[str, Any]:
        return {"microbatches": PER_DEVICE * cluster.device_count} if graph.training else {}

    def price(
        self, graph: Graph, cluster: Cluster, settings: ThroughputPricing, change: Change | None = None
    ) -> Sequence[Priced[ThroughputProblem]]:
        runtime = runtime_for(settings.runtime, graph.workload)
        graph = with_packed_weights(graph, settings.weights)

        def priced(called: bool = False, **more: Any) -> ThroughputProblem:
            problem = price(graph, cluster, msgspec.structs.replace(settings, **more), called=called)
            return problem if change is None else change(problem)

        if runtime is None:
            return [Priced(priced(), graph, cluster, settings)]
        tied = "together" if runtime.limits.ties(graph.training) else settings.tied
        problem = priced(cuts=coarsest(settings.cuts, runtime), tied=tied, called=runtime.limits.calls)
        problem = _on_devices(problem, runtime)
        if runtime.limits.ordered:
            problem = _on_row(problem, graph, runtime)
        _check_limited(problem, graph, settings, runtime)
        return [Priced(problem, graph, cluster, settings, free=priced())]

    def search_options(self, priced: Priced[ThroughputProblem], options: ThroughputOptions) -> ThroughputOptions:
        runtime = runtime_for(priced.settings.runtime, priced.graph.workload)
        if runtime is None:
            return options
        if not runtime.limits.contiguous:
            return msgspec.structs.replace(options, contiguity="free")
        if options.contiguity == "free":
            raise InputError(f"{runtime.name} passes tensors forward only; leave --contiguity free out")
        return options

    def parts(self, priced: Priced[ThroughputProblem], plan: Plan) -> ModelParts:
        problem, settings = priced.problem, priced.settings
        accelerators = {kind.name for kind in problem.kinds if kind.accelerator}
        place_of = {
            f"{group.spec.name}:{number}": place
            for group in priced.cluster.groups()
            for number, place in enumerate(group.indices)
        }
        again = "stage" if problem.training and problem.schedule.recompute else "none"

        def places(stage: Stage) -> tuple[int, ...]:
            # Devices beyond those of the cluster are asked for with --devices.
            found = [place_of.get(name) for name in stage.devices]
            return tuple(place for place in found if place is not None) if None not in found else ()

        return ModelParts(
            tuple(
                StagePart(
                    operators=stage.operators,
                    devices=stage.devices,
                    kind=stage.kind,
                    accelerator=stage.kind in accelerators,
                    replicas=stage.data_parallel,
                    rank=place,
                    places=places(stage),
                    offload="weights" if problem.streaming else "",
                )
                for place, stage in enumerate(plan.stages)
            ),
            recompute={v: again for stage in plan.stages for v in stage.operators},
            schedule=problem.schedule.name if problem.training else "forward",
            microbatches=problem.schedule.microbatches,
            overlap=False,
            optimizer=settings.optimizer,
            optimizer_dtype=settings.optimizer_dtype,
            master_weights=settings.master_weights,
        )


def _on_row(problem: ThroughputProblem, graph: Graph, runtime: Runtime) -> ThroughputProblem:
    """The problem with the chain that a runtime's stages are runs of; unsupported if the model is none."""
    found = chain_of(graph, runtime)
    units: list[list[int]] = [[] for _ in found.names]
    for op, unit in zip(problem.operators, found.unit, strict=True):
        units[unit].append(op.id)
    chain = UnitChain(units=tuple(map(tuple, units)), handed=found.handed, hosts_first=runtime.limits.host == "first")
    return problem.replace(row=chain, notes=(*problem.notes, *found.notes))


def _on_devices(problem: ThroughputProblem, runtime: Runtime) -> ThroughputProblem:
    """The problem with those of its devices that a runtime uses; an error if it uses fewer, and these are not alike."""
    kinds = [problem.kinds[kind] for _, kind in problem.device_names()]
    kept = devices_for(runtime, [kind.name for kind in kinds], [kind.accelerator for kind in kinds])
    counts = Counter(kinds[place].name for place in kept)
    limited = tuple(msgspec.structs.replace(kind, count=counts[kind.name]) for kind in problem.kinds)
    return problem if limited == problem.kinds else problem.replace(kinds=limited)


def _check_limited(problem: ThroughputProblem, graph: Graph, settings: Pricing, runtime: Runtime) -> None:
    """Refuse a problem, of a graph and settings, that asks for what a runtime does not do."""
    limits, name = runtime.limits, runtime.name
    if problem.max_replicas > 1 and not limits.data:
        raise InputError(f"{name} has no data-parallel replicas; leave --max-replicas out")
    if problem.max_replicas > 1 and problem.row is None:
        raise InputError(
            f"{name} has one mesh for all stages, and stages that are no chain are not planned with equal replicas; "
            "leave --max-replicas out"
        )
    if problem.row is not None and problem.groups:
        raise InputError(
            f"chains of layers for {name} are not planned with --hierarchy and --groups yet; leave them out"
        )
    if problem.streaming and not limits.offload:
        raise InputError(f"{name} keeps a stage's weights on its device; leave --streaming out")
    if not problem.training:
        return
    meshes, schedule = check_training(runtime, graph, settings, sequence_parallel=True), problem.schedule
    if limits.schedules and schedule.name not in limits.schedules:
        raise InputError(f"{name} has no schedule {schedule.name}; take {' or '.join(limits.schedules)}")
    if schedule.recompute and limits.recompute:
        raise InputError(f"{name} recomputes layers, not whole stages; leave --recompute out, or plan for a step")
    most = sum(kind.count for kind in problem.kinds if kind.accelerator)
    mesh = partial(Mesh, tensor=1, context=1, expert=1, zero=0, schedule=schedule.name)
    asked = [mesh(stages=most, data=1, microbatches=schedule.microbatches)]
    if problem.max_replicas > 1:
        # With one stage and with several.
        asked += [mesh(stages=stages, data=2, microbatches=most) for stages in (1, 2)]
    wrong = next((found for one in asked for found in meshes.refusals(one, name)), None)
    if wrong is not None:
        raise InputError(f"{wrong} (or leave --runtime out, or plan for a step with --objective hybrid)")
