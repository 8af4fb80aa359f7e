"""From a model on a cluster to hybrid problems: the settings, one problem for each number of microbatches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from partita.errors import InputError
from partita.problems.facets.model import PER_DEVICE, FromModel, Priced, Refinement
from partita.problems.hybrid.options import HybridPricing, Options
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.simulated_step import simulated_step
from partita.run.monitor import Monitor
from partita.run.result import Result, Row

if TYPE_CHECKING:
    from partita.cluster import Cluster
    from partita.graph import Graph

Change = Callable[[HybridProblem], HybridProblem]
Answered = tuple[Priced[HybridProblem], Result[HybridProblem, Any, Any]]


class HybridFromModel(FromModel[HybridProblem]):
    """Training on devices of one kind; the layers are priced once for all numbers of microbatches."""

    objective = "hybrid"
    pricing = HybridPricing

    def refusal(self, cluster: Cluster) -> str | None:
        from partita.costs.menus.machines import uneven

        wrong = uneven(cluster)
        return None if wrong is None else f"{wrong}, and hybrid plans need one kind in machines that are alike"

    def suits(self, training: bool) -> bool:
        return training

    preferred = suits

    def usual(self, graph: Graph, cluster: Cluster) -> Mapping[str, Any]:
        devices = sum(len(group.indices) for group in cluster.groups() if group.spec.accelerator)
        return {"microbatches": (PER_DEVICE * max(1, devices),)}

    def price(
        self, graph: Graph, cluster: Cluster, settings: HybridPricing, change: Change | None = None
    ) -> Sequence[Priced[HybridProblem]]:
        from partita.costs.table import cost_source
        from partita.problems.hybrid.pricing import MEMORY_OPTIONS, layer_menus

        if not settings.microbatches:
            raise InputError("the number of microbatches is not stated; give microbatches=(32,), for example")
        menus = layer_menus(
            graph,
            cluster,
            microbatches=settings.microbatches[0],
            optimizer=settings.optimizer,
            optimizer_dtype=settings.optimizer_dtype,
            master_weights=settings.master_weights,
            zero1=settings.zero1,
            sequence_parallel=settings.sequence_parallel,
            degrees=settings.tensor_parallel_degrees or None,
            memory_options=settings.recompute_options or MEMORY_OPTIONS,
            offload=settings.offload,
            costs=cost_source(settings.costs),
            name=settings.name,
        )
        found = []
        for number in settings.microbatches:
            problem = menus.problem.replace(microbatches=number)
            found.append(Priced(problem if change is None else change(problem), graph, cluster, settings, menus))
        return found

    def choose(self, answers: Sequence[Answered]) -> int:
        """The shortest step per microbatch; without any plan the last number, which leaves most freedom."""
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
        self, priced: Priced[Any], result: Result[Any, Any, Any], rows: Sequence[Row], options: Any, monitor: Monitor
    ) -> Refinement:
        from partita.problems.hybrid.shorter_step import shorter_steps

        return shorter_steps(result, rows, priced.settings.minimise, options, monitor)
