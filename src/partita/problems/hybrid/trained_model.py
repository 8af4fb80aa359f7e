"""What both objectives make alike of a model on a cluster: candidates, and what of it each stage of a plan has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from partita.costs.table import cost_source
from partita.engines.search.result import Result
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph, Workload
from partita.nouns.pipeline import Plan, Stage
from partita.nouns.split import OPTIMIZER_STATES, StagePart
from partita.problems.facets.model import FromModel, ModelParts, Priced
from partita.problems.hybrid.evaluation import replica_starts
from partita.problems.hybrid.kind import HybridKind
from partita.problems.hybrid.model_layers import layer_operators, selective_ways
from partita.problems.hybrid.options import HybridOptions, HybridPricing
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.spaces import MEMORY_OPTIONS, StrategySpaces

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

    def search_options(self, priced: Priced[Any], options: HybridOptions) -> HybridOptions:
        if options.machine_devices is not None:
            return options
        # Tensor parallelism stays inside the machines of the cluster.
        sizes = Counter(priced.cluster.machine_of())
        return msgspec.structs.replace(options, machine_devices=min(sizes.values()))


def pricing_settings(settings: HybridPricing) -> dict[str, Any]:
    """What layers are priced with, as ``pricing.strategy_spaces`` calls it, for the first number of microbatches."""
    alike = ("optimizer", "optimizer_dtype", "master_weights", "zero1", "sequence_parallel", "offload", "fused", "name")
    return {name: getattr(settings, name) for name in (*alike, "precision")} | {
        "behind": settings.hide,
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
    spaces: StrategySpaces,
    change: Change | None,
) -> list[Priced[HybridProblem]]:
    """The problem with each number of microbatches that is asked for, and changed."""
    sized = (problem.replace(microbatches=number) for number in settings.microbatches)
    return [Priced(one if change is None else change(one), graph, cluster, settings, spaces) for one in sized]


def plan_parts(
    priced: Priced[HybridProblem],
    plan: Plan,
    behind: Sequence[int] | None = None,
    *,
    zero: int,
    zero_shards: int = 0,
    sequence_parallel: bool,
    overlap: bool,
    gradient_dtype: str,
) -> ModelParts:
    """Of interleaved stages first all first parts, then all second ones.

    ``behind`` says how many devices of its kind are behind each stage, where these are laid out from the last one back;
    the rest is as in ``ModelParts``.
    """
    members = layer_operators(priced.graph, priced.details)
    selective = selective_ways(priced.graph, priced.details)
    settings = priced.settings
    names = priced.cluster.device_names()
    places = _places(priced, plan, behind)

    def way(stage: Stage, layer: int) -> str:
        chosen = stage.configurations[layer]
        return {"selective": selective[layer], "offload": "none"}.get(chosen, chosen)

    def kept_on_host(stage: Stage, layers: Sequence[int]) -> Iterator[str]:
        if any(stage.configurations[layer] == "offload" for layer in layers):
            yield "activations"
        if settings.offload_optimizer:
            yield OPTIMIZER_STATES

    def part(rank: int, stage: Stage, layers: Sequence[int]) -> StagePart:
        return StagePart(
            operators=tuple(v for layer in layers for v in members[layer]),
            devices=tuple(f"{names[place]}:{place}" for place in places[rank]),
            kind=names[places[rank][0]],
            replicas=stage.data_parallel,
            tensor=stage.tensor_parallel,
            rank=rank,
            context=stage.context_parallel,
            expert=stage.expert_parallel,
            expert_tensor=stage.expert_tensor_parallel,
            places=places[rank],
            planned=tuple(layers),
            offload=" and ".join(kept_on_host(stage, layers)),
        )

    return ModelParts(
        tuple(
            part(rank, stage, stage.chunks[chunk] if stage.chunks else stage.operators)
            for chunk in range(plan.chunks)
            for rank, stage in enumerate(plan.stages)
        ),
        recompute={v: way(stage, layer) for stage in plan.stages for layer in stage.operators for v in members[layer]},
        schedule=plan.schedule,
        microbatches=priced.problem.microbatches,
        chunks=plan.chunks,
        zero=zero,
        zero_shards=zero_shards,
        sequence_parallel=sequence_parallel,
        overlap=overlap,
        gradient_dtype=gradient_dtype,
        optimizer=settings.optimizer,
        optimizer_dtype=settings.optimizer_dtype,
        master_weights=settings.master_weights,
    )


def _places(priced: Priced[HybridProblem], plan: Plan, behind: Sequence[int] | None) -> list[tuple[int, ...]]:
    """For every stage the numbers of its devices in the cluster, replica after replica."""
    pools = {group.spec.name: group.indices for group in priced.cluster.workers()}
    used = [pools.get(stage.kind, next(iter(pools.values()))) for stage in plan.stages]
    starts = replica_starts(priced.problem, plan.stages)
    if behind is not None:
        # Replicas are neighbours, and so count as one.
        firsts = zip(used, behind, plan.stages, strict=True)
        starts = [[len(pool) - count - stage.device_count] for pool, count, stage in firsts]
    found = []
    for stage, pool, mine in zip(plan.stages, used, starts, strict=True):
        width = stage.device_count // len(mine)
        found.append(tuple(chain.from_iterable(pool[start : start + width] for start in mine)))
    return found
