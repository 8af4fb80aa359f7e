"""From a model on a cluster to a throughput problem: the settings, and what is usual."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from partita.nouns.graph import Workload
from partita.nouns.pipeline import Plan, Stage
from partita.nouns.split import StagePart
from partita.problems.facets.limits import coarsest, runtime_for
from partita.problems.facets.model import PER_DEVICE, FromModel, ModelParts, Priced
from partita.problems.throughput.limits import check_limited, contiguity_for, on_devices, on_row
from partita.problems.throughput.options import Options, ThroughputPricing
from partita.problems.throughput.problem import ThroughputProblem

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
        from partita.costs.table import cost_source
        from partita.problems.throughput.pricing import price

        runtime = runtime_for(settings.runtime, graph.workload)
        arguments = msgspec.structs.asdict(settings)
        del arguments["runtime"]
        arguments |= {"costs": cost_source(settings.costs), "microbatches": settings.microbatches or 1}

        def priced(**more: Any) -> ThroughputProblem:
            problem = price(graph, cluster, **(arguments | more))
            return problem if change is None else change(problem)

        if runtime is None:
            return [Priced(priced(), graph, cluster, settings)]
        tied = "together" if runtime.limits.ties(graph.training) else settings.tied
        problem = priced(cuts=coarsest(settings.cuts, runtime), tied=tied, called=runtime.limits.calls)
        problem = on_devices(problem, runtime)
        if runtime.limits.ordered:
            problem = on_row(problem, graph, runtime)
        check_limited(problem, graph, settings, runtime)
        return [Priced(problem, graph, cluster, settings, free=priced())]

    def search_options(self, priced: Priced[ThroughputProblem], options: Options) -> Options:
        runtime = runtime_for(priced.settings.runtime, priced.graph.workload)
        if runtime is None:
            return options
        return msgspec.structs.replace(options, contiguity=contiguity_for(runtime, options.contiguity))

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
