"""A hybrid plan lowered: a pipeline of stages whose replicas take turns at microbatches.

Devices of a tensor-parallel group run in lockstep. Transfers take the time of the devices at both ends, as in the
objective, and links between machines are passed on the way.
"""

from __future__ import annotations

import itertools

from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan
from partita.problems.assignment import stage_of_each
from partita.problems.hybrid.evaluation import HybridEvaluation, configurations_of, replica_devices, stage_name
from partita.problems.hybrid.layer import Configuration
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.steady.evaluate import update_time
from partita.simulator.pipeline import Handover, Hop, Pipeline, PipelineStage, StageWork
from partita.simulator.program import End, Message, Place


def lowered(problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation, *, behind: bool = False) -> Pipeline:
    """What the stages of a plan do, hand on and synchronise; with ``behind`` weights behind the last backward part.

    InputError if an edge goes back, or a layer has no such configuration.
    """
    return _Lowering(problem, plan, evaluation, behind=behind).pipeline()


class _Lowering:
    """A plan of the steady problem as a pipeline; nodes are numbered as there."""

    def __init__(
        self, problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation, *, behind: bool = False
    ) -> None:
        self.problem, self.plan, self.evaluation, self.behind = problem, plan, evaluation, behind
        self.count = len(plan.stages)
        ids = [layer.id for layer in problem.layers]
        self.stage_of = stage_of_each([stage.operators for stage in plan.stages], ids, "layer")
        self.layers = {layer.id: layer for layer in problem.layers}
        self.chosen = configurations_of(problem, plan)
        for edge in problem.edges:
            if self.stage_of[edge.source] > self.stage_of[edge.target]:
                raise InputError(
                    f"edge {edge.source} → {edge.target} goes from stage {self.stage_of[edge.source]} back to stage "
                    f"{self.stage_of[edge.target]}; such a plan cannot run"
                )
        self.group = [stage.machine_group or 0 for stage in plan.stages]
        # Per pair of stages, the bytes that one hands to the other, what each end moves for it, and sizes on links.
        self.pairs: dict[tuple[int, int], list[float]] = {}
        for edge in problem.edges:
            source, target = self.stage_of[edge.source], self.stage_of[edge.target]
            if source != target:
                entry = self.pairs.setdefault((source, target), [0.0, 0.0, 0.0])
                entry[0] += edge.bytes
                entry[1] += edge.bytes + self.chosen[edge.source].sync_out_bytes.get(edge.target, 0.0)
                entry[2] += edge.bytes + self.chosen[edge.target].sync_in_bytes.get(edge.source, 0.0)

    def pipeline(self) -> Pipeline:
        """The pipeline."""
        problem, evaluation = self.problem, self.evaluation
        links: tuple[Place, ...] = ()
        if problem.hierarchy is not None:
            links = tuple(
                Place(
                    name=f"network of machine group {number}",
                    instances=group.machines,
                    capacity=problem.hierarchy.machine_bandwidth_bytes_per_unit,
                )
                for number, group in enumerate(evaluation.machine_groups)
            )
        hops, edges, messages = self._transfers()
        devices = replica_devices(problem, self.plan.stages)
        stages = tuple(self._stage(number, devices[number]) for number in range(self.count))
        edges += [(number, self.count + number) for number in range(self.count)]
        if not problem.weight_sync_per_batch:
            for number, group in enumerate(evaluation.machine_groups):
                # The machines' links synchronise for every microbatch once the group's first stage has gone back.
                first = self.group.index(number)
                edges.append((self.count + first, 2 * self.count + len(hops)))
                hops.append(Hop(number, group.weight_sync * group.machines, True))
        return Pipeline(
            name=problem.name,
            unit=problem.unit,
            stages=stages,
            edges=tuple(edges),
            links=links,
            hops=tuple(hops),
            messages=tuple(messages),
            end_every=problem.microbatches,
            notes=self._notes(),
            handovers=tuple(
                Handover(source, target, size, backward)
                for (a, b), (size, _, _) in sorted(self.pairs.items())
                for source, target, backward in ((a, b, False), (b, a, True))
                if size > 0
            ),
            microbatches=problem.microbatches,
        )

    def _notes(self) -> tuple[str, ...]:
        unknown = sum(choice.forward_time is None for choice in self.chosen.values())
        if not unknown:
            return ()
        return (f"The forward part of {unknown} layers is taken as a third of their time.",)

    def _transfers(self) -> tuple[list[Hop], list[tuple[int, int]], list[Message]]:
        """Hops over links, edges between nodes, and messages, forward and back."""
        hops: list[Hop] = []
        edges: list[tuple[int, int]] = []
        messages: list[Message] = []
        hierarchy = self.problem.hierarchy
        for (source, target), (size, out, into) in sorted(self.pairs.items()):
            groups = self.group[source], self.group[target]
            crosses = hierarchy is not None and groups[0] != groups[1]
            for a, b, first, last in (
                (source, target, groups[0], groups[1]),
                (self.count + target, self.count + source, groups[1], groups[0]),
            ):
                row = [a]
                if crosses and hierarchy is not None:
                    time = size / hierarchy.machine_bandwidth_bytes_per_unit
                    for link, outward in ((first, True), (last, False)):
                        row.append(2 * self.count + len(hops))
                        hops.append(Hop(link, time, outward))
                row.append(b)
                edges += itertools.pairwise(row)
                messages.append(Message(a, b, max(out, into), 0.0, (first, last) if crosses else ()))
        return hops, edges, messages

    def _stage(self, number: int, replicas: tuple[tuple[str, ...], ...]) -> PipelineStage:
        """One stage with what it costs each of its devices."""
        problem, entry, worth = self.problem, self.plan.stages[number], self.evaluation.stages[number]
        held = [self.chosen[identity] for identity in entry.operators]
        forward = sum(choice.forward for choice in held)
        time = sum(choice.time for choice in held)
        backward, weights = time - forward, sum(choice.weight_bytes for choice in held)
        traffic = sum(choice.traffic_time for choice in held)
        bandwidth = problem.bandwidth_bytes_per_unit
        into = sum(moved for (_, target), (_, _, moved) in self.pairs.items() if target == number) / bandwidth
        out = sum(moved for (source, _), (_, moved, _) in self.pairs.items() if source == number) / bandwidth
        each = 0.0 if problem.weight_sync_per_batch else worth.weight_sync * entry.data_parallel
        share = traffic / time if time > 0 else 0.0
        # What moves inside the groups for tensors of other stages is work of the stage, wherever it is.
        inside = sum(moved - size for (_, target), (size, _, moved) in self.pairs.items() if target == number)
        inside += sum(moved - size for (source, _), (size, moved, _) in self.pairs.items() if source == number)
        inside /= bandwidth
        return PipelineStage(
            replicas=replicas,
            forward=StageWork(forward, into, out, share),
            backward=StageWork(backward, out, into, share),
            sync_each=each,
            in_flight=worth.in_flight,
            activation_bytes=sum(choice.memory_per_microbatch_bytes for choice in held),
            memory={
                "state": sum(choice.memory_bytes for choice in held),
                "shared state": sum(choice.sharded_bytes for choice in held) / entry.data_parallel,
            },
            limit=problem.memory_bytes,
            weight_bytes=weights,
            end=self._end(number, held),
            link=self.group[number] if problem.hierarchy is not None else -1,
            capacity=bandwidth,
            name=stage_name([self.layers[v] for v in entry.operators]),
            work_s={"": (forward + inside, backward + inside)},
            parameter_bytes=weights,
            update_s=update_time(problem, entry),
        )

    def _end(self, number: int, held: list[Configuration]) -> End:
        """Synchronisation once per batch, inside machines and then between them, and the optimizer's step."""
        problem, entry, worth = self.problem, self.plan.stages[number], self.evaluation.stages[number]
        update = update_time(problem, entry)
        if not problem.weight_sync_per_batch:
            return End(update=update)
        batch, behind = problem.microbatches, []
        sync = worth.weight_sync * batch
        weights = sum(choice.weight_bytes for choice in held)
        if self.behind and sync > 0 and weights > 0:
            whole, done = sum(choice.time - choice.forward for choice in held), 0.0
            for choice in reversed(held):
                done += choice.time - choice.forward
                if choice.weight_bytes > 0:
                    share = done / whole if whole > 0 else 1.0
                    behind.append((min(share, 1.0), sync * choice.weight_bytes / weights))
        link, crossing = -1, 0.0
        if self.evaluation.machine_groups:
            link = self.group[number]
            mates = [s for s in range(self.count) if self.group[s] == link]
            of = [sum(self.layers[v].whole_weight_bytes for v in self.plan.stages[s].operators) for s in mates]
            if sum(of) > 0:
                whole = self.evaluation.machine_groups[link].weight_sync * batch
                crossing = whole * of[mates.index(number)] / sum(of)
        return End(sync=sync, behind=tuple(behind), link=link, link_sync=crossing, update=update)
