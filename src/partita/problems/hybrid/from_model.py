"""From a model on a cluster to hybrid problems: the settings, and which objective they are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from partita.costs.packed import with_packed_weights
from partita.costs.strategies.machines import uneven
from partita.ground.errors import InputError
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph
from partita.problems.facets.model import PER_DEVICE, Priced
from partita.problems.hybrid.options import HybridPricing
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.layout import parse_layout
from partita.problems.hybrid.step.mixed import uneven_kinds
from partita.problems.hybrid.trained_model import Change, TrainedModel
from partita.problems.hybrid.training import ZERO_STAGES

#: Samples of a microbatch that are looked at.
_SIZES = (1, 2, 4, 8, 16)


class HybridFromModel(TrainedModel):
    """One problem for each number of microbatches; with a global batch one for each size of a microbatch."""

    def refusal(self, cluster: Cluster) -> str | None:
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
        check_settings(settings)
        steady, step = self.kind.parts
        model = (steady if settings.minimise == "steady" else step).model
        assert model is not None
        if settings.global_batch is None:
            if not settings.microbatches:
                raise InputError("the number of microbatches is not stated; give microbatches=(32,), for example")
            return model.price(with_packed_weights(graph, settings.weights), cluster, settings, change)
        found: list[Priced[HybridProblem]] = []
        sizes = microbatch_sizes(settings, graph.samples)
        if hasattr(settings.trace, "expect"):
            settings.trace.expect([size for size in sizes if size != graph.samples])
        for samples in sizes:
            traced = graph if samples == graph.samples else settings.trace(samples)
            number = settings.global_batch // samples
            sized = msgspec.structs.replace(settings, microbatches=(number,))
            found += model.price(with_packed_weights(traced, settings.weights), cluster, sized, change)
        return found


def check_settings(settings: HybridPricing) -> None:
    """Refuse settings that contradict each other."""
    steady = settings.minimise == "steady"
    if steady and settings.mesh == "uniform":
        raise InputError("--mesh uniform is for steps; leave it out, or --minimise steady")
    asked = {
        "--layout": settings.layout,
        "--schedule": settings.schedule,
        "--zero": settings.zero,
        "--zero-shards": settings.zero_shards,
        "--context-parallel-degrees": settings.context_parallel_degrees,
        "--expert-parallel-degrees": settings.expert_parallel_degrees,
        "--expert-tensor-parallel-degrees": settings.expert_tensor_parallel_degrees,
    }
    for flag, value in asked.items():
        if value and steady:
            raise InputError(f"{flag} is for steps; leave it out, or --minimise steady")
    if settings.layout and settings.mesh == "free":
        raise InputError("--layout is a uniform mesh; leave it out, or --mesh free")
    for what in ("activations", "optimizer"):
        if getattr(settings, f"offload_{what}") and steady:
            raise InputError(f"--offload-{what} is for steps; leave it out, or --minimise steady")
    for stage in settings.zero:
        if stage not in ZERO_STAGES:
            raise InputError(f"--zero {stage} is no stage of ZeRO; give {', '.join(map(str, ZERO_STAGES))}")
    if settings.zero_shards and settings.mesh == "free":
        raise InputError("--zero-shards is for a uniform mesh; leave it out, or --mesh free")
    for shards in settings.zero_shards:
        if shards == 1:
            raise InputError("--zero-shards 1 shares out nothing; give --zero 0, or groups of at least 2")
    if settings.zero1 and settings.zero:
        raise InputError("--zero1 and --zero say the same; leave --zero1 out")


def microbatch_sizes(settings: HybridPricing, samples: int) -> list[int]:
    """Samples of a microbatch to look at: powers of two that divide the batch, if the model can be traced again."""
    batch = settings.global_batch or 0
    if settings.trace is not None and settings.layout is None:
        return [size for size in _SIZES if batch % size == 0]
    if batch % samples:
        raise InputError(
            f"the global batch of {batch} samples is no multiple of the {samples} of a microbatch; change one of them"
        )
    return [samples]
