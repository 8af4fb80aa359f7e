"""A throughput plan lowered: forward and backward parts of its stages in a row, and what they ask of devices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from partita.ground.rounding import leq
from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.pipeline import Stage
from partita.problems.throughput.evaluate import reduced_bytes
from partita.problems.throughput.evaluation import StageEvaluation
from partita.problems.throughput.nodes import Nodes, nodes_of
from partita.problems.throughput.problem import MicrobatchSchedule, ThroughputProblem
from partita.problems.throughput.running import Run
from partita.problems.throughput.virtual_stages import Ints
from partita.simulator.pipeline import Handover, Hop, Pipeline, PipelineStage, StageWork
from partita.simulator.program import End, Place


def lowered(run: Run) -> Pipeline:
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


def _handovers(run: Run, position: Ints) -> Iterator[Handover]:
    """Tensors, each once for every stage that reads it."""
    place = {op.id: number for number, op in enumerate(run.problem.operators)}
    moved: dict[tuple[int, int, bool], float] = defaultdict(float)
    for tensor in run.problem.tensors:
        maker = place[tensor.producer]
        source, backward = int(position[run.stage_of[maker]]), bool(run.backward[maker])
        for target in {int(position[run.stage_of[place[reader]]]) for reader in tensor.consumers} - {source}:
            moved[source, target, backward] += tensor.size
    for (source, target, backward), size in sorted(moved.items()):
        if size > 0:
            yield Handover(source, target, size, backward)


def _stage(run: Run, place: int, order: Sequence[int], nodes: Nodes) -> PipelineStage:
    """One stage with what it costs its devices."""
    stage, back = order[place], len(order) + place
    problem, entry, worth = run.problem, run.plan.stages[stage], run.evaluation.stages[stage]
    own = len(entry.devices)
    schedule, training, per_batch = problem.schedule, problem.training, problem.weight_sync_per_batch
    forward = StageWork(nodes.time[place], nodes.incoming[place], nodes.outgoing[place])
    backward = None
    if training:
        backward = StageWork(nodes.time[back] + worth.reload, nodes.incoming[back], nodes.outgoing[back])
    else:
        forward = replace(forward, time=forward.time + worth.reload)
    in_flight = worth.in_flight
    if schedule.name != "1f1b" or run.microbatches != schedule.microbatches:
        behind_it = sum(len(run.plan.stages[other].devices) for other in order[place:])
        in_flight = MicrobatchSchedule(name="1f1b", microbatches=run.microbatches).in_flight(behind_it, own)
    total = worth.synchronisation * schedule.microbatches if per_batch else 0.0
    chunked = ((1.0, total),) if run.request.weight_sync == "behind" and total > 0 else ()
    base = run.place(stage)
    return PipelineStage(
        replicas=base.replicas,
        forward=forward,
        backward=backward,
        sync_each=worth.synchronisation * own if run.in_turn and not per_batch else 0.0,
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
    again = problem.schedule.recompute and problem.training
    for place, kind in enumerate(problem.kinds):
        limit = None if problem.streaming else kind.memory_bytes
        if kind.name != entry.kind and limit is not None and not leq(worth.memory.total, limit):
            continue
        times = [(op.backward, time) for op in operators if (time := op.times[place]) is not None]
        if len(times) == len(operators):
            forward = sum(time for backward, time in times if not backward)
            backward = sum(time for backward, time in times if backward) + (forward if again else 0.0)
            reload = worth.reload
            yield kind.name, (forward, backward + reload) if problem.training else (forward + reload, 0.0)


def _update(worth: StageEvaluation) -> float:
    """Least time of the optimizer's step: gradients are read, weights and states read and written (docs/menus.md)."""
    spec = load_catalogue().devices.get(worth.kind)
    if spec is None:
        return 0.0
    moved = 3.0 * worth.memory.gradients + 2.0 * worth.memory.optimizer
    return moved / (spec.memory_bandwidth_bytes_per_s * spec.memory_efficiency)
