"""What happens when a hybrid plan runs: a pipeline of stages whose replicas take turns at microbatches.

Devices of a tensor-parallel group run in lockstep. Transfers take the time of the devices at both ends, as in the
objective, and links between machines are passed on the way.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from partita.errors import InputError
from partita.problems.assignment import stage_of_each
from partita.problems.facets.timeline import Request, TimeLine
from partita.problems.hybrid.plan import HybridPlan, HybridStage
from partita.problems.hybrid.problem import Configuration, HybridProblem
from partita.problems.hybrid.step.costs import forward_time
from partita.problems.hybrid.step.evaluate import meshes_of, spread_problem
from partita.problems.hybrid.step.timeline import step_pipeline
from partita.problems.hybrid.step_time import step_time, update_time
from partita.problems.hybrid.worth import HybridEvaluation
from partita.simulator.program import End, Message, Place, Program
from partita.simulator.schedules import find_schedule
from partita.simulator.stages import Hop, Stage, StagePipeline, StageWork, staged_program


class HybridTimeLine(TimeLine[HybridProblem, HybridPlan, HybridEvaluation]):
    """Stages under 1F1B unless another schedule is asked for."""

    def program(
        self, problem: HybridProblem, plan: HybridPlan, evaluation: HybridEvaluation, request: Request
    ) -> Program:
        return hybrid_program(problem, plan, evaluation, request)

    def expected(
        self, problem: HybridProblem, plan: HybridPlan, evaluation: HybridEvaluation, program: Program
    ) -> Mapping[str, float]:
        if program.microbatches != problem.microbatches or program.schedule != plan.schedule:
            return {}
        if problem.training is not None:
            return {"the step": evaluation.objective}
        return {
            "the step": step_time(problem, plan, evaluation).step,
            "a microbatch in the steady state": evaluation.objective,
        }

    def holdings(
        self, problem: HybridProblem, plan: HybridPlan, program: Program, place: int
    ) -> Sequence[tuple[str, float, bool]]:
        """Layers with their state, and with what they keep of each microbatch in flight."""
        stage = plan.stages[place]
        mesh = None if problem.training is None else meshes_of(problem, plan)[place]
        layers = {layer.id: layer for layer in (problem if mesh is None else mesh.problem).layers}
        found = []
        for identity in stage.operators:
            layer = layers[identity]
            choice = _configuration(problem, layer.configurations, place, stage, identity)
            name = layer.name or f"layer {identity}"
            if mesh is not None:
                held = mesh.exchanges.held([mesh.place[identity]]) + choice.memory_bytes
                found += [(f"{name}: state", held, False)]
                found += [(f"{name}: activations", choice.memory_per_microbatch_bytes, True)]
                continue
            state = choice.memory_bytes + choice.sharded_bytes / stage.data_parallel
            found += [(f"{name}: state", state, False)]
            found += [(f"{name}: activations", choice.memory_per_microbatch_bytes, True)]
        return found


def hybrid_program(problem: HybridProblem, plan: HybridPlan, evaluation: HybridEvaluation, request: Request) -> Program:
    """What happens when a plan runs.

    Raises
    ------
    InputError
        If it cannot run, or not as asked.
    """
    schedule = find_schedule(request.schedule or plan.schedule)
    microbatches = problem.microbatches if request.microbatches is None else request.microbatches
    if not schedule.training:
        raise InputError(f"schedule {schedule.name} is for inference, and hybrid plans are for training")
    if problem.training is not None:
        spread = spread_problem(problem, plan)
        pipeline = step_pipeline(spread, plan, _configurations(spread, plan))
    else:
        pipeline = PlanPipeline(problem, plan, evaluation, behind=request.weight_sync == "behind").build()
    return staged_program(
        pipeline,
        schedule,
        microbatches,
        chunks=request.chunks,
        contention=request.contention,
        interval=request.interval,
    )


class PlanPipeline:
    """A plan as a pipeline of stages; nodes are numbered as there."""

    def __init__(
        self, problem: HybridProblem, plan: HybridPlan, evaluation: HybridEvaluation, *, behind: bool = False
    ) -> None:
        self.problem, self.plan, self.evaluation, self.behind = problem, plan, evaluation, behind
        self.count = len(plan.stages)
        ids = [layer.id for layer in problem.layers]
        self.stage_of = stage_of_each([stage.operators for stage in plan.stages], ids, "layer")
        self.layers = {layer.id: layer for layer in problem.layers}
        self.chosen = _configurations(problem, plan)
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

    def build(self) -> StagePipeline:
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
        names = self.devices()
        stages = tuple(self._stage(number, names[number]) for number in range(self.count))
        edges += [(number, self.count + number) for number in range(self.count)]
        if not problem.weight_sync_per_batch:
            for number, group in enumerate(evaluation.machine_groups):
                # The machines' links synchronise for every microbatch once the group's first stage has gone back.
                first = self.group.index(number)
                edges.append((self.count + first, 2 * self.count + len(hops)))
                hops.append(Hop(number, group.weight_sync * group.machines, True))
        return StagePipeline(
            name=problem.name,
            unit=problem.unit,
            stages=stages,
            edges=tuple(edges),
            links=links,
            hops=tuple(hops),
            messages=tuple(messages),
            end_every=problem.microbatches,
            notes=self._notes(),
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

    def work(self, number: int) -> tuple[float, float]:
        """Time of a stage's forward and backward part for a microbatch."""
        held = [self.chosen[identity] for identity in self.plan.stages[number].operators]
        forward = sum(forward_time(choice) for choice in held)
        return forward, sum(choice.time for choice in held) - forward

    def weight_bytes(self, number: int) -> float:
        """Weights of a stage on each of its devices."""
        return sum(self.chosen[identity].weight_bytes for identity in self.plan.stages[number].operators)

    def names(self, number: int) -> list[str]:
        """A stage's layers for people."""
        return [self.layers[v].name or f"layer {v}" for v in self.plan.stages[number].operators]

    def devices(self) -> list[tuple[tuple[str, ...], ...]]:
        """The devices of every replica of every stage, numbered along the stages; machine by machine."""
        size, first = self.problem.devices_per_machine, 0
        machines = 0
        found: list[tuple[tuple[str, ...], ...]] = []
        for number, stage in enumerate(self.plan.stages):
            t = stage.tensor_parallel
            if stage.machines is None:
                starts = [first + replica * t for replica in range(stage.data_parallel)]
                first += stage.devices
            else:
                if number and self.group[number] != self.group[number - 1]:
                    machines += self.plan.stages[number - 1].machines or 1
                    first = 0
                # Microbatch m is that of replica m mod d, on machine m mod (machines of the group).
                starts = [
                    (machines + replica % stage.machines) * size + first + replica // stage.machines * t
                    for replica in range(stage.data_parallel)
                ]
                first += stage.replicas_per_machine * t
            found.append(tuple(tuple(f"device:{start + k}" for k in range(t)) for start in starts))
        return found

    def _stage(self, number: int, replicas: tuple[tuple[str, ...], ...]) -> Stage:
        """One stage with what it costs each of its devices."""
        problem, entry, worth = self.problem, self.plan.stages[number], self.evaluation.stages[number]
        held = [self.chosen[identity] for identity in entry.operators]
        forward, backward = self.work(number)
        time = forward + backward
        traffic = sum(choice.traffic_time for choice in held)
        bandwidth = problem.bandwidth_bytes_per_unit
        into = sum(moved for (_, target), (_, _, moved) in self.pairs.items() if target == number) / bandwidth
        out = sum(moved for (source, _), (_, moved, _) in self.pairs.items() if source == number) / bandwidth
        each = 0.0 if problem.weight_sync_per_batch else worth.weight_sync * entry.data_parallel
        share = traffic / time if time > 0 else 0.0
        return Stage(
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
            weight_bytes=self.weight_bytes(number),
            end=self._end(number, held),
            link=self.group[number] if problem.hierarchy is not None else -1,
            capacity=bandwidth,
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
            whole, done = sum(choice.time - forward_time(choice) for choice in held), 0.0
            for choice in reversed(held):
                done += choice.time - forward_time(choice)
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


def _configurations(problem: HybridProblem, plan: HybridPlan) -> dict[int, Configuration]:
    """What each layer runs, by id."""
    tables = {
        stage.device: {layer.id: layer.configurations for layer in problem.on(stage.device).layers}
        for stage in plan.stages
    }
    return {
        identity: _configuration(problem, tables[stage.device][identity], number, stage, identity)
        for number, stage in enumerate(plan.stages)
        for identity in stage.operators
    }


def _configuration(
    problem: HybridProblem,
    configurations: Mapping[int, tuple[Configuration, ...]],
    number: int,
    stage: HybridStage,
    identity: int,
) -> Configuration:
    for choice in configurations.get(stage.tensor_parallel, ()):
        if choice.id == stage.configurations.get(identity):
            return choice
    raise InputError(
        f"plan stage {number}: layer {identity} has no configuration {stage.configurations.get(identity)!r} of degree "
        f"{stage.tensor_parallel} in problem {problem.name!r}; such a plan cannot run"
    )
