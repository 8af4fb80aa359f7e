"""A throughput plan with what running it needs: devices, links, what nodes hand on; and lowered, as stages in a row."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from partita.engines.kernels.arrays import Longs
from partita.ground.errors import InputError
from partita.ground.rounding import leq
from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.pipeline import Plan, Stage
from partita.problems.facets.model import PER_DEVICE
from partita.problems.facets.timeline import RunRequest
from partita.problems.throughput.evaluate import preferred_order, reduced_bytes
from partita.problems.throughput.evaluation import Evaluation, StageEvaluation
from partita.problems.throughput.nodes import Nodes, edges_of, nodes_of, stage_of_operators
from partita.problems.throughput.problem import MicrobatchSchedule, ThroughputProblem
from partita.simulator.pipeline import Handover, Hop, Pipeline, PipelineStage, StageWork
from partita.simulator.program import End, Message, Place, Streams

Made = TypeVar("Made")


class PlanRun:
    """A plan and how it is asked to run. ``InputError``: it has no operators, or some cannot run where it puts them.

    Attributes
    ----------
    order
        Its stages in a row; None if they wait for each other in a circle.
    usual_microbatches
        Of a batch, where nothing else is asked for: the same for every plan of the problem.
    streams
        What transfers take of a device: what is fetched again delays them, too, so that they cannot hide behind it.
    in_turn
        Whether synchronising takes the devices' time.
    """

    def __init__(self, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> None:
        if all(not stage.operators for stage in plan.stages):
            raise InputError(f"the plan of problem {problem.name!r} has no operators to run")
        wrong = next((text for text in evaluation.violations if "cannot run on" in text), None)
        if wrong is not None:
            raise InputError(f"the plan of problem {problem.name!r} cannot run: {wrong}")
        self.problem, self.plan, self.evaluation = problem, plan, evaluation
        self.stage_of, self.edges = stage_of_operators(problem, plan), edges_of(problem)
        self.backward = np.array([op.backward for op in problem.operators], dtype=bool)
        self.used: list[int] = np.unique(self.stage_of).tolist()
        # In which forward work goes on and backward work back: the plan's own order, where it is one.
        pairs = [
            (u, v)[:: -1 if self.backward[u] else 1] for u, v in self.edges if self.backward[u] == self.backward[v]
        ]
        self.order = preferred_order(self.used, {(int(self.stage_of[u]), int(self.stage_of[v])) for u, v in pairs})
        self.groups = problem.stage_groups(plan)
        given = problem.schedule.microbatches
        self.usual_microbatches = given if given > 1 else PER_DEVICE * problem.device_count
        self.usual_schedule = "gpipe" if problem.gpipe else "1f1b" if problem.training else "forward"
        self.request, self.microbatches = RunRequest(), self.usual_microbatches
        reloads = any(stage.reload > 0 for stage in evaluation.stages)
        self.streams: Streams = "sum" if reloads else problem.communication
        self.in_turn = self.streams == "sum"
        self._made: dict[Any, Any] = {}
        self.notes: tuple[str, ...] = ()
        if reloads and problem.communication != "sum":
            self.notes = ("What does not fit into memory is fetched one after the other with transfers and work.",)

    def asked(self, request: RunRequest) -> PlanRun:
        """The same as it is asked to run."""
        found = copy.copy(self)
        found.request = request
        found.microbatches = self.usual_microbatches if request.microbatches is None else request.microbatches
        return found

    def once(self, make: Callable[[PlanRun], Made]) -> Made:
        """What is the same however the plan is asked to run, made once for all of these."""
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]  # type: ignore[no-any-return]

    def held(self, worth: StageEvaluation) -> float:
        """Bytes that each device keeps of each microbatch in flight."""
        return worth.memory.activations / worth.in_flight

    def links(self) -> list[Place]:
        """The links of groups of devices."""
        return [
            Place(f"link of {group.name}", streams=self.streams, capacity=_capacity(group.transfer_time_per_unit))
            for group in self.problem.groups
        ]

    def place(self, stage: int) -> Place:
        """The devices of a stage and what they hold."""
        entry, memory = self.plan.stages[stage], self.evaluation.stages[stage].memory
        return Place(
            name=f"stage {stage}",
            replicas=tuple((device,) for device in entry.devices),
            instances=len(entry.devices),
            streams=self.streams,
            memory={name: size for name, size in memory.parts.items() if name not in ("activations", "workspace")},
            workspace=memory.workspace,
            limit=None if self.problem.streaming else memory.limit,
            capacity=_capacity(self.problem.kind_named(entry.kind).transfer_time_per_unit),
        )

    def transfers(
        self, nodes: Nodes, stage_of_node: Sequence[int], first_hop: int
    ) -> tuple[list[Hop], list[tuple[int, int]], list[Message]]:
        """Hops over groups' links, edges between nodes and hops, and messages."""
        group = [self.groups[stage] for stage in stage_of_node]
        kind = [self.problem.kind_named(self.plan.stages[stage].kind) for stage in stage_of_node]
        hops: list[Hop] = []
        edges: list[tuple[int, int]] = []
        out: dict[int, int] = {}
        into: dict[tuple[int, int], int] = {}
        for node, time in sorted(nodes.leaving.items()):
            out[node] = first_hop + len(hops)
            edges.append((node, out[node]))
            hops.append(Hop(self.groups[nodes.stage[node]], time, True))
        for (node, entered), time in sorted(nodes.entering.items()):
            into[node, entered] = first_hop + len(hops)
            edges.append((out[node], into[node, entered]))
            hops.append(Hop(entered, time, False))
        for a, b in sorted(nodes.waits | nodes.crossings.keys()):
            crosses = group[b] != group[a] and (a, b) in nodes.crossings
            edges.append((into[a, group[b]], b) if crosses else (a, b))
        messages = []
        for (a, b), sizes in sorted(nodes.crossings.items()):
            links = (group[a], group[b]) if self.problem.groups and group[a] != group[b] else ()
            latency = len(sizes) * max(kind[a].transfer_latency, kind[b].transfer_latency)
            messages.append(Message(a, b, sum(sizes, 0.0), latency, links))
        return hops, edges, messages


def _capacity(time_per_unit: float) -> float:
    """Units of size per unit of time; infinite where moving costs nothing."""
    return 1 / time_per_unit if time_per_unit > 0 else math.inf


def lowered(run: PlanRun) -> Pipeline:
    """What the stages of a plan do, hand on and synchronise; in the plan's order where they wait in a circle."""
    problem, plan = run.problem, run.plan
    order = run.used if run.order is None else run.order
    count = len(order)
    position = np.full(len(plan.stages), -1, dtype=np.int64)
    position[order] = np.arange(count)
    node_of = position[run.stage_of] + np.where(run.backward, count, 0)

    def payer(source: int, stage: int, node: int) -> int:
        """By who made it, as the objective counts it, whoever of a stage reads it first."""
        return int(position[stage]) + (count if run.backward[source] else 0)

    again = {stage: count + place for place, stage in enumerate(order)}
    nodes = nodes_of(problem, plan, run.stage_of, node_of, run.edges, count=2 * count, payer=payer, again=again)
    nodes.waits |= {(place, count + place) for place in range(count)} if problem.training else set()
    hops, edges, messages = run.transfers(nodes, [*order, *order], 2 * count)
    links = run.links()
    for place, stage in enumerate(order):
        worth, own = run.evaluation.stages[stage], len(plan.stages[stage].devices)
        if worth.synchronisation > 0 and not run.in_turn and not problem.weight_sync_per_batch:
            edges.append((place + (count if problem.training else 0), 2 * count + len(hops)))
            hops.append(Hop(len(links), worth.synchronisation * own, True))
            links.append(Place(f"synchronisation of stage {place}", instances=own))
    return Pipeline(
        name=problem.name,
        unit=problem.unit,
        stages=tuple(_stage(run, place, order, nodes) for place in range(count)),
        edges=tuple(edges),
        links=tuple(links),
        hops=tuple(hops),
        messages=tuple(messages),
        streams=run.streams,
        end_every=problem.schedule.microbatches,
        notes=run.notes,
        handovers=tuple(_handovers(run, position)),
        microbatches=run.usual_microbatches,
        schedule=run.usual_schedule,
        row=run.order is not None,
        numbers=tuple(order),
    )


def _handovers(run: PlanRun, position: Longs) -> Iterator[Handover]:
    """Tensors, each once for every stage that reads it."""
    home = dict(zip((op.id for op in run.problem.operators), position[run.stage_of].tolist(), strict=True))
    backward = {op.id for op in run.problem.operators if op.backward}
    moved: dict[tuple[int, int, bool], float] = defaultdict(float)
    for tensor in run.problem.tensors:
        source = home[tensor.producer]
        for target in {home[reader] for reader in tensor.consumers} - {source}:
            moved[source, target, tensor.producer in backward] += tensor.size
    return (Handover(*key[:2], size, key[2]) for key, size in sorted(moved.items()) if size > 0)


def _stage(run: PlanRun, place: int, order: Sequence[int], nodes: Nodes) -> PipelineStage:
    """One stage with what it costs its devices."""
    stage, back = order[place], len(order) + place
    problem, entry, worth = run.problem, run.plan.stages[stage], run.evaluation.stages[stage]
    own, schedule, training = len(entry.devices), problem.schedule, problem.training
    forward = StageWork(nodes.time[place], nodes.incoming[place], nodes.outgoing[place])
    backward = StageWork(nodes.time[back] + worth.reload, nodes.incoming[back], nodes.outgoing[back])
    in_flight = worth.in_flight
    if schedule.name != "1f1b" or run.microbatches != schedule.microbatches:
        behind_it = sum(len(run.plan.stages[other].devices) for other in order[place:])
        in_flight = MicrobatchSchedule(name="1f1b", microbatches=run.microbatches).in_flight(behind_it, own)
    total = worth.synchronisation * schedule.microbatches if problem.weight_sync_per_batch else 0.0
    chunked = ((1.0, total),) if run.request.weight_sync == "behind" and total > 0 else ()
    base = run.place(stage)
    return PipelineStage(
        replicas=base.replicas,
        forward=forward if training else replace(forward, time=forward.time + worth.reload),
        backward=backward if training else None,
        sync_each=worth.synchronisation * own if run.in_turn and not problem.weight_sync_per_batch else 0.0,
        in_flight=in_flight,
        activation_bytes=run.held(worth),
        memory=base.memory,
        workspace=base.workspace,
        limit=base.limit,
        weight_bytes=worth.memory.weights,
        end=End(sync=total, behind=chunked) if total > 0 else End(),
        link=run.groups[stage] if problem.groups else -1,
        capacity=base.capacity,
        name=entry.devices[0] if own == 1 else f"{entry.devices[0]} and {own - 1} more",
        kind=entry.kind,
        work_s=dict(_work(problem, entry, worth)),
        parameter_bytes=reduced_bytes(problem, worth.memory) if training else 0.0,
        update_s=_update(worth) if training else 0.0,
    )


def _work(
    problem: ThroughputProblem, entry: Stage, worth: StageEvaluation
) -> Iterator[tuple[str, tuple[float, float]]]:
    """By kind of device on which a stage can run, its forward and backward work there."""
    held = set(entry.operators)
    operators = [op for op in problem.operators if op.id in held]
    for place, kind in enumerate(problem.kinds):
        limit = None if problem.streaming else kind.memory_bytes
        if kind.name != entry.kind and limit is not None and not leq(worth.memory.total, limit):
            continue
        times = [(op.backward, time) for op in operators if (time := op.times[place]) is not None]
        if len(times) == len(operators):
            forward = sum(time for backward, time in times if not backward)
            backward = sum(time for backward, time in times if backward)
            backward += forward if problem.schedule.recompute else 0.0
            reload = worth.reload
            yield kind.name, (forward, backward + reload) if problem.training else (forward + reload, 0.0)


def _update(worth: StageEvaluation) -> float:
    """Least time of the optimizer's step: gradients are read, weights and states read and written."""
    spec = load_catalogue().devices.get(worth.kind)
    if spec is None:
        return 0.0
    moved = 3.0 * worth.memory.gradients + 2.0 * worth.memory.optimizer
    return moved / (spec.memory_bandwidth_bytes_per_s * spec.memory_efficiency)
