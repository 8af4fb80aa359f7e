"""From a model on a cluster to problems about the time per sample, one for each number of microbatches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Result, Rival
from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan
from partita.problems.facets.limits import runtime_for
from partita.problems.facets.model import ModelParts, Priced, RefinedPlan
from partita.problems.hybrid.options import HybridPricing
from partita.problems.hybrid.parts import plan_parts
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.steady.pricing import steady_menus
from partita.problems.hybrid.trained_model import Change, TrainedModel, by_microbatches, menu_settings

if TYPE_CHECKING:
    from partita.nouns.cluster import Cluster
    from partita.nouns.graph import Graph


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
        menus = steady_menus(graph, cluster, **menu_settings(settings))
        return by_microbatches(menus.problem, graph, cluster, settings, menus, change)

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
