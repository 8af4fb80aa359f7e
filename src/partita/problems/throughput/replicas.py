"""Throughput plans with equally many replicas of every stage (Parmesan, Appendix B)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec

from partita.engines.search.monitor import Monitor
from partita.ground.rounding import TOLERANCE
from partita.nouns.pipeline import Plan
from partita.problems.facets.stages import Replication, Shape
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Outcome
from partita.problems.throughput.solvers.exact import Slicing


class ThroughputReplicas(Replication[ThroughputProblem, Plan]):
    """A split of the model over S devices, every stage of which runs on R: its best cuts do not depend on R.

    But for memory: under 1F1B a stage holds as many microbatches as there are stages from it to the last, and never
    more than a replica gets.
    """

    def refusal(self, problem: ThroughputProblem) -> str | None:
        if not problem.training:
            return "is inference; numbers of stages and replicas are searched for training"
        if problem.groups:
            return "has groups of devices; leave --hierarchy out, the topology says which devices are near"
        if problem.communication != "sum" or problem.streaming:
            return "overlaps transfers or streams memory, which placed plans do not"
        return None

    def split(self, shape: Shape[ThroughputProblem], options: Any, monitor: Monitor) -> Outcome:
        found: Outcome = Slicing().solve(shape.problem, options, monitor)
        if found.plan is None and not found.infeasible and _is_too_large(shape.problem):
            return dataclasses.replace(found, bound=None, infeasible=True)
        return found

    def shapes(self, problem: ThroughputProblem) -> Sequence[Shape[ThroughputProblem]]:
        batch = problem.schedule.microbatches
        counts = [kind.count for kind in problem.kinds if kind.count]
        found = []
        for recompute in (False, True):
            again = problem.replace(schedule=msgspec.structs.replace(problem.schedule, recompute=recompute))
            work, chain, parameters = _least(again)
            for replicas in (r for r in range(1, max(counts) + 1) if batch % r == 0):
                most = sum(count // replicas for count in counts)
                # With several kinds it is not said of which the stages are: the split chooses.
                for stages in range(1, most + 1) if len(counts) == 1 else (most,):
                    # With one stage, GPipe is the same with more in memory.
                    found += [
                        Shape(
                            stages=stages,
                            replicas=replicas,
                            schedule=schedule,
                            recompute=recompute,
                            microbatches=batch // replicas,
                            problem=_one_replica(again, stages, replicas, schedule),
                            work_s=work,
                            chain_s=chain,
                            parameter_bytes=parameters,
                        )
                        for schedule in (("1f1b", "gpipe") if stages > 1 else ("1f1b",))
                    ]
        return found

    def spread(
        self, problem: ThroughputProblem, shape: Shape[ThroughputProblem], plan: Plan
    ) -> tuple[ThroughputProblem, Plan]:
        whole = problem.replace(
            schedule=msgspec.structs.replace(problem.schedule, name=shape.schedule, recompute=shape.recompute),
            max_replicas=shape.replicas,
            weight_sync_per_batch=True,
        )
        used: dict[str, int] = {}
        stages = []
        for stage in plan.stages:
            first = used.get(stage.kind, 0)
            used[stage.kind] = first + shape.replicas
            devices = tuple(f"{stage.kind}:{first + replica}" for replica in range(shape.replicas))
            stages.append(msgspec.structs.replace(stage, devices=devices, data_parallel=shape.replicas))
        return whole, Plan(stages=tuple(stages))


def _one_replica(problem: ThroughputProblem, stages: int, replicas: int, schedule: str) -> ThroughputProblem:
    """The problem of one replica of every stage."""
    microbatches = problem.schedule.microbatches // replicas
    alone = len(problem.present) == 1
    kinds = tuple(
        msgspec.structs.replace(kind, count=min(kind.count // replicas, stages if alone else kind.count))
        for kind in problem.kinds
    )
    if schedule == "1f1b":
        # Nothing depends on the batch beyond as many microbatches as stages.
        microbatches = min(microbatches, sum(kind.count for kind in kinds))
    return problem.replace(
        kinds=kinds,
        schedule=msgspec.structs.replace(problem.schedule, name=schedule, microbatches=microbatches),
        max_replicas=1,
        weight_sync_per_batch=False,
    )


def _is_too_large(problem: ThroughputProblem) -> bool:
    """Whether an item needs more than any device has, or all together more than all of them have.

    That is without activations, and each weight that is shared counts once.
    """
    instance = build_instance(problem)
    used = instance.count > 0
    limits = instance.memory[used]
    room = (float(limits.max()), float(limits @ instance.count[used]))
    need = (float(instance.fixed.max()), float(instance.fixed.sum() + instance.cover_fixed.sum()))
    # Each stage may be above its limit by a share of ``TOLERANCE``.
    return any(mine > (1 + 2 * TOLERANCE) * whole for mine, whole in zip(need, room, strict=True))


def _least(problem: ThroughputProblem) -> tuple[float, float, float]:
    """Least work of a microbatch, of a chain of colocated operators that wait for each other both ways, and gradients.

    A chain is a longest path over classes of operators of which the later reads a forward tensor of the earlier, and
    the earlier a backward tensor of the later. Nobody waits for tensors without bytes where plans are placed.
    """
    instance = build_instance(problem)
    time = instance.work.min(axis=1)
    place_of = {op.id: place for place, op in enumerate(problem.operators)}
    ways: tuple[set[tuple[int, int]], set[tuple[int, int]]] = (set(), set())
    for tensor in (tensor for tensor in problem.tensors if tensor.size > 0):
        maker = place_of[tensor.producer]
        for reader in (place_of[consumer] for consumer in tensor.consumers):
            a, b = int(instance.group[maker]), int(instance.group[reader])
            backward = problem.operators[maker].backward
            if a != b and backward == problem.operators[reader].backward:
                ways[backward].add((b, a) if backward else (a, b))
    longest = time.copy()
    # Items are numbered along the order of the forward part.
    for a, b in sorted(ways[0] & ways[1]):
        longest[b] = max(longest[b], time[b] + longest[a])
    gradients = sum(p.gradient_bytes for p in problem.parameters)
    return float(time.sum()), float(longest.max()), gradients if problem.parameters else float(instance.fixed.sum())
