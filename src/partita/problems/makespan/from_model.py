"""From a model on a cluster to a makespan problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from partita.problems.facets.model import FromModel, Parts, Priced, StagePart
from partita.problems.makespan.options import MakespanPricing
from partita.problems.makespan.plan import Schedule
from partita.problems.makespan.problem import MakespanProblem

if TYPE_CHECKING:
    from partita.cluster import Cluster
    from partita.graph import Graph

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


class MakespanFromModel(FromModel[MakespanProblem]):
    """Inference on any devices, one sample (or batch) at a time."""

    objective = "latency"
    pricing = MakespanPricing

    def refusal(self, cluster: Cluster) -> str | None:
        count = cluster.device_count
        if count <= MOST_DEVICES:
            return None
        return f"has {count} devices, and every transfer is scheduled for at most {MOST_DEVICES}"

    def suits(self, training: bool) -> bool:
        return not training

    def price(
        self,
        graph: Graph,
        cluster: Cluster,
        settings: MakespanPricing,
        change: Callable[[MakespanProblem], MakespanProblem] | None = None,
    ) -> Sequence[Priced[MakespanProblem]]:
        from partita.costs.table import cost_source
        from partita.problems.makespan.pricing import price

        fused = None
        if settings.fuse or settings.fusion_rules is not None:
            from partita.fusion.fuse import fuse

            fused = fuse(graph, settings.fusion_rules)
            graph = fused.graph
        problem = price(graph, cluster, tied=settings.tied, costs=cost_source(settings.costs), name=settings.name)
        if fused is not None:
            problem = with_members(problem, fused.groups)
        return [Priced(problem if change is None else change(problem), graph, cluster, settings, fused)]

    def parts(self, priced: Priced[MakespanProblem], plan: Schedule) -> Parts:
        """The devices that run something, the one that starts first first."""
        names, cluster = priced.cluster.device_names(), priced.cluster
        held: dict[int, list[int]] = {}
        for v, placed in sorted(plan.operators.items(), key=lambda entry: entry[1].start):
            # What the pricing adds to the operators of the graph has a number beyond theirs.
            if v < len(priced.graph.operators):
                held.setdefault(placed.device, []).append(v)
        return Parts(
            tuple(
                StagePart(
                    operators,
                    (priced.problem.devices[device].name,),
                    names[device],
                    cluster.devices[names[device]].accelerator,
                    rank=rank,
                )
                for rank, (device, operators) in enumerate(held.items())
            ),
            sequential=True,
        )
