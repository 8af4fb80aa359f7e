"""From a model on a cluster to a throughput problem: the settings, and what is usual."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from partita.problems.facets.model import PER_DEVICE, FromModel, Parts, Priced, StagePart
from partita.problems.throughput.options import ThroughputPricing
from partita.problems.throughput.plan import Plan
from partita.problems.throughput.problem import ThroughputProblem

if TYPE_CHECKING:
    from partita.cluster import Cluster
    from partita.graph import Graph

Change = Callable[[ThroughputProblem], ThroughputProblem]


class ThroughputFromModel(FromModel[ThroughputProblem]):
    """Every model on every cluster is one problem."""

    objective = "throughput"
    pricing = ThroughputPricing

    def preferred(self, training: bool) -> bool:
        return not training

    def usual(self, graph: Graph, cluster: Cluster) -> Mapping[str, Any]:
        return {"microbatches": PER_DEVICE * cluster.device_count} if graph.training else {}

    def price(
        self, graph: Graph, cluster: Cluster, settings: ThroughputPricing, change: Change | None = None
    ) -> Sequence[Priced[ThroughputProblem]]:
        from partita.costs.table import cost_source
        from partita.problems.throughput.pricing import price

        arguments = msgspec.structs.asdict(settings)
        arguments |= {"costs": cost_source(settings.costs), "microbatches": settings.microbatches or 1}
        problem = price(graph, cluster, **arguments)
        return [Priced(problem if change is None else change(problem), graph, cluster, settings)]

    def parts(self, priced: Priced[ThroughputProblem], plan: Plan) -> Parts:
        problem = priced.problem
        accelerators = {kind.name for kind in problem.kinds if kind.accelerator}
        return Parts(
            tuple(
                StagePart(
                    stage.operators,
                    stage.devices,
                    stage.kind,
                    stage.kind in accelerators,
                    replicas=len(stage.devices),
                    rank=place,
                )
                for place, stage in enumerate(plan.stages)
            ),
            schedule=problem.schedule.name if problem.training else "forward",
            microbatches=problem.schedule.microbatches,
        )
