"""What both objectives make alike of a model on a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from partita.costs.table import cost_source
from partita.engines.search.result import Result
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph, Workload
from partita.nouns.pipeline import Plan
from partita.problems.facets.model import FromModel, Priced
from partita.problems.hybrid.kind import HybridKind
from partita.problems.hybrid.menus import MEMORY_OPTIONS, LayerMenus
from partita.problems.hybrid.options import HybridPricing, Options
from partita.problems.hybrid.problem import HybridProblem

Change = Callable[[HybridProblem], HybridProblem]
Answered = tuple[Priced[HybridProblem], Result[HybridProblem, Plan, Any]]


class TrainedModel(FromModel[HybridProblem]):
    """Training on devices of few kinds; the layers are priced once for all numbers of microbatches."""

    kind: HybridKind
    pricing = HybridPricing
    workloads = preferred = (Workload.TRAINING,)

    def choose(self, answers: Sequence[Answered]) -> int:
        """The shortest step per sample; without any plan the last candidate, which leaves most freedom."""
        worth = {
            place: self.kind.simulated_step(result.problem, result.plan, result.evaluation).per_sample
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


def menu_settings(settings: HybridPricing) -> dict[str, Any]:
    """What the layers are priced with, as ``pricing.layer_menus`` calls it, for the first number of microbatches."""
    alike = ("optimizer", "optimizer_dtype", "master_weights", "zero1", "sequence_parallel", "offload", "fused", "name")
    return {name: getattr(settings, name) for name in alike} | {
        "microbatches": settings.microbatches[0],
        "degrees": settings.tensor_parallel_degrees or None,
        "memory_options": settings.recompute_options or MEMORY_OPTIONS,
        "costs": cost_source(settings.costs),
    }


def by_microbatches(
    problem: HybridProblem,
    graph: Graph,
    cluster: Cluster,
    settings: HybridPricing,
    menus: LayerMenus,
    change: Change | None,
) -> list[Priced[HybridProblem]]:
    """The problem with each number of microbatches that is asked for, and changed."""
    sized = (problem.replace(microbatches=number) for number in settings.microbatches)
    return [Priced(one if change is None else change(one), graph, cluster, settings, menus) for one in sized]
