"""From a model on a cluster to a makespan problem."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from partita.costs.table import cost_source
from partita.fusion.fuse import fuse
from partita.ground.errors import InputError
from partita.nouns.graph import Workload
from partita.nouns.split import StagePart
from partita.problems.facets.limits import devices_for, runtime_for
from partita.problems.facets.model import FromModel, ModelParts, Priced
from partita.problems.makespan.options import MakespanPricing
from partita.problems.makespan.pricing import price
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem

if TYPE_CHECKING:
    from partita.nouns.cluster import Cluster
    from partita.nouns.graph import Graph
    from partita.problems.makespan.pricing import Tied

#: Transfer times are kept for every pair of devices and size of tensor.
MOST_DEVICES = 64


def with_members(problem: MakespanProblem, groups: Sequence[Sequence[int]]) -> MakespanProblem:
    """The problem of a fused graph, whose operators say what they were made of."""
    operators = (
        # What the pricing adds to the operators of the graph has a number beyond theirs.
        msgspec.structs.replace(op, members=tuple(groups[op.id]))
        if op.id < len(groups) and len(groups[op.id]) > 1
        else op
        for op in problem.operators
    )
    return problem.replace(operators=tuple(operators))


def only_on(problem: MakespanProblem, devices: Collection[int]) -> MakespanProblem:
    """The problem whose operators run on some devices only."""
    if len(devices) == len(problem.devices):
        return problem
    operators = tuple(
        msgspec.structs.replace(op, times=tuple(t if d in devices else None for d, t in enumerate(op.times)))
        for op in problem.operators
    )
    return problem.replace(operators=operators)


class MakespanFromModel(FromModel[MakespanProblem]):
    """Inference on any devices, one sample (or batch) at a time."""

    pricing = MakespanPricing
    objective = "latency"
    workloads = (Workload.INFERENCE,)
    alone = True

    def refusal(self, cluster: Cluster) -> str | None:
        count = cluster.device_count
        if count <= MOST_DEVICES:
            return None
        return f"has {count} devices, and every transfer is scheduled for at most {MOST_DEVICES}"

    def price(
        self,
        graph: Graph,
        cluster: Cluster,
        settings: MakespanPricing,
        change: Callable[[MakespanProblem], MakespanProblem] | None = None,
    ) -> Sequence[Priced[MakespanProblem]]:
        runtime = runtime_for(settings.runtime, graph.workload)
        fusing = settings.fuse or settings.fusion_rules is not None
        if runtime is not None:
            if runtime.limits.contiguous:
                raise InputError(
                    f"{runtime.name} runs stages in a row, which the latency of one sample does not keep; plan it with "
                    "--objective throughput"
                )
            if fusing:
                raise InputError(
                    f"fused operators are not planned for {runtime.name}; leave --fuse and --fusion-rules out"
                )
        fused = fuse(graph, settings.fusion_rules) if fusing else None
        graph = graph if fused is None else fused.graph

        def priced(tied: Tied, **more: Any) -> MakespanProblem:
            costs = cost_source(settings.costs)
            found = price(graph, cluster, tied=tied, costs=costs, name=settings.name, **more)
            found = found if fused is None else with_members(found, fused.groups)
            return found if change is None else change(found)

        if runtime is None:
            return [Priced(priced(settings.tied), graph, cluster, settings, fused)]
        # What a runtime can run that puts parts of a model on devices as it likes.
        limits = runtime.limits
        tied: Tied = "together" if limits.ties(graph.training) else settings.tied
        problem = priced(tied, cuts=limits.cuts, called=limits.calls, in_turn=not limits.pipeline)
        accelerators = [cluster.devices[name].accelerator for name in cluster.device_names()]
        problem = only_on(problem, devices_for(runtime, cluster.device_names(), accelerators))
        return [Priced(problem, graph, cluster, settings, free=priced(settings.tied))]

    def parts(self, priced: Priced[MakespanProblem], plan: MakespanPlan) -> ModelParts:
        """The devices that run something, the one that starts first first."""
        names, cluster = priced.cluster.device_names(), priced.cluster
        held: dict[int, list[int]] = {}
        ranks = dict(zip((op.id for op in priced.problem.operators), priced.problem.ranks()[0], strict=True))
        for v, placed in sorted(plan.operators.items(), key=lambda one: (one[1].start, one[1].end, ranks[one[0]])):
            # What the pricing adds to the operators of the graph has a number beyond theirs.
            if v < len(priced.graph.operators):
                held.setdefault(placed.device, []).append(v)
        return ModelParts(
            tuple(
                StagePart(
                    operators=tuple(operators),
                    devices=(priced.problem.devices[device].name,),
                    kind=names[device],
                    accelerator=cluster.devices[names[device]].accelerator,
                    rank=rank,
                    places=(device,),
                )
                for rank, (device, operators) in enumerate(held.items())
            ),
            sequential=True,
        )
