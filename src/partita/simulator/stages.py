"""A lowered pipeline under a schedule: the program of plans whose stages are in a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from partita.ground.errors import InputError
from partita.simulator.chunks import cut
from partita.simulator.pipeline import NOTHING, Pipeline, PipelineStage, StageWork
from partita.simulator.program import Contention, Order, Place, Program, Step
from partita.simulator.schedules.check import check_orders
from partita.simulator.schedules.protocol import Action, InTurns, Schedule
from partita.simulator.timeline import BACKWARD, FORWARD, INPUT, SYNC, TRANSFER, WEIGHT


def staged_program(
    pipeline: Pipeline,
    schedule: Schedule,
    microbatches: int,
    *,
    chunks: int | None = None,
    contention: Contention = "dedicated",
    interval: float = 0.0,
) -> Program:
    """A pipeline under a schedule.

    Microbatches are of one batch, over all replicas; ``chunks`` the stages that each rank is cut into, what is usual
    for the schedule unless stated; ``contention`` what transfers do to each other; ``interval`` the time between the
    arrivals of two microbatches.

    Raises ``InputError`` if the schedule does not run such a pipeline, or can never end. Of schedules in turns, whether
    they end depends on what waits for what, and is seen when they run.
    """
    ranks = len(pipeline.stages) // pipeline.parts
    if microbatches < 1:
        raise InputError(f"{pipeline.name}: microbatches is {microbatches}; it must be at least 1")
    if pipeline.parts > 1 and chunks not in (None, pipeline.parts):
        raise InputError(f"{pipeline.name}: its stages have {pipeline.parts} parts; leave chunks out")
    if chunks is None:
        chunks = pipeline.parts if pipeline.parts > 1 else schedule.default_chunks
    if schedule.training and not pipeline.training:
        raise InputError(f"{pipeline.name}: schedule {schedule.name} is for training; use --schedule forward")
    if not schedule.training and pipeline.training:
        raise InputError(f"{pipeline.name}: schedule {schedule.name} is for inference, and there is backward work")
    # Without a break, a batch counts that neither the first nor the last one meets in the pipeline.
    apart = 0 if schedule.flush else -(-sum(len(stage.replicas) for stage in pipeline.stages) // microbatches)
    batches = 1 if schedule.flush else 2 * apart + 2
    mine = pipeline.stages[:ranks]
    degrees, held = [len(stage.replicas) for stage in mine], [stage.in_flight for stage in mine]
    rows = rows_of(pipeline.name, schedule, degrees, held, chunks, microbatches, batches)
    rank_of = schedule.rank_of(ranks, chunks)
    if chunks > pipeline.parts:
        pipeline = cut(pipeline, rank_of)
    count = len(rank_of)
    split = schedule.splits_backward
    steps: list[Step] = []
    number: dict[tuple[str, int], int] = {}
    for letter in ("F", *(("I", "W") if split else ("B",))) if pipeline.training else ("F",):
        for stage in range(count):
            number[letter, stage] = len(steps)
            steps.append(_step(pipeline.stages[stage], rank_of[stage], stage, letter, split))
    back = "I" if split else "B"
    for stage in range(count):
        if pipeline.stages[stage].sync_each > 0:
            number["S", stage] = len(steps)
            steps.append(Step(rank_of[stage], stage, "S", SYNC, pipeline.stages[stage].sync_each))
    nodes = [number["F", s] for s in range(count)]
    nodes += [number[back, s] for s in range(count)] if pipeline.training else [-1] * count
    for hop in pipeline.hops:
        nodes.append(len(steps))
        steps.append(Step(ranks + hop.link, -1, "=", TRANSFER, hop.time, outward=hop.outward))
    edges = [(nodes[a], nodes[b]) for a, b in pipeline.edges]
    if split:
        steps = _whole_backwards(steps, number, rows, count, microbatches * batches)
        edges += [(number["I", s], number["W", s]) for s in range(count)]
    first = [rank_of.index(rank) for rank in range(ranks)]
    places = [_place(pipeline, [s for s in range(count) if rank_of[s] == rank], schedule) for rank in range(ranks)]
    ends = [pipeline.stages[s].end for s in first]
    ends = [replace(end, link=ranks + end.link) if end.link >= 0 else end for end in ends]
    return Program(
        name=pipeline.name,
        unit=pipeline.unit,
        places=[*places, *pipeline.links],
        steps=steps,
        edges=edges,
        orders=[order for row in rows for order in _orders(row, number, split)],
        microbatches=microbatches,
        messages=[
            replace(m, source=nodes[m.source], target=nodes[m.target], links=tuple(ranks + link for link in m.links))
            for m in pipeline.messages
        ],
        batches=batches,
        counted=0 if schedule.flush else apart + 1,
        ends=ends if pipeline.training and any(end != NOTHING for end in ends) else (),
        end_every=pipeline.end_every,
        versions=[schedule.weight_versions(pipeline.stages[s].in_flight) for s in first] if batches > 1 else (),
        interval=interval,
        contention=contention,
        schedule=schedule.name,
        flushes=schedule.flush,
        barrier=schedule.barrier and pipeline.training,
        settles=schedule.settles,
        notes=pipeline.notes,
    )


class Row(NamedTuple):
    """What replicas of a rank do in order, all the same: of ``replicas`` from the ``first`` on the k-th does so with
    microbatch m · replicas + k where the actions say m."""

    rank: int
    first: int
    replicas: int
    actions: list[Action]


def rows_of(
    name: str,
    schedule: Schedule,
    degrees: Sequence[int],
    held: Sequence[int],
    chunks: int,
    batch: int,
    batches: int = 1,
) -> list[Row]:
    """What every replica of every rank does; microbatches are numbered over all replicas.

    ``degrees`` are the replicas of each rank, ``held`` the microbatches in flight that each may hold in turns; a
    ``batch`` has so many. Raises ``InputError``, which names the pipeline, if the schedule does not run them.
    """
    ranks, columns, total = len(degrees), degrees[0], batch * batches
    if isinstance(schedule, InTurns):
        refusal = schedule.refusal(ranks, chunks, batch // max(degrees))
        if refusal is not None:
            raise InputError(f"{name}: {refusal}")
        return [
            Row(rank, replica, 1, schedule.own_order(rank, range(replica, total, count), held[rank]))
            for rank, count in enumerate(degrees)
            for replica in range(count)
        ]
    if len(set(degrees)) > 1:
        raise InputError(
            f"{name}: schedule {schedule.name} needs as many replicas of every stage, here are "
            f"{', '.join(map(str, degrees))}; use one of forward, gpipe, 1f1b, pipedream, 2bw"
        )
    if total % columns:
        raise InputError(
            f"{name}: schedule {schedule.name} gives each of {columns} replicas as many microbatches, but "
            f"there are {total}; take a multiple of {columns}"
        )
    refusal = schedule.refusal(ranks, chunks, total // columns)
    if refusal is not None:
        raise InputError(f"{name}: {refusal}")
    orders = schedule.orders(ranks, chunks, total // columns)
    check_orders(orders, schedule.rank_of(ranks, chunks), training=schedule.training, microbatches=total // columns)
    return [Row(rank, 0, columns, row) for rank, row in enumerate(orders)]


def _orders(row: Row, number: Mapping[tuple[str, int], int], split: bool) -> Iterator[Order]:
    """The actions of each replica of a row as steps, each followed by what it lets synchronise.

    A whole backward action of a schedule that splits others is both its parts.
    """
    last = "F" if not any(letter != "F" for letter, _ in number if letter != "S") else "W" if split else "B"
    steps: list[int] = []
    microbatches: list[int] = []
    for stage, letter, microbatch in row.actions:
        for part in ("I", "W") if split and letter == "B" else (letter,):
            steps.append(number[part, stage])
            microbatches.append(microbatch)
            if part == last and ("S", stage) in number:
                steps.append(number["S", stage])
                microbatches.append(microbatch)
    shared, own = np.array(steps, dtype=np.int64), np.array(microbatches, dtype=np.int64) * row.replicas
    for k in range(row.replicas):
        yield Order(row.rank, row.first + k, shared, own + k)


def _step(stage: PipelineStage, place: int, number: int, letter: str, split: bool) -> Step:
    """One action of a stage; activations are kept to the end of the backward work."""
    back = stage.backward or StageWork()
    held = stage.activation_bytes
    if letter == "F":
        work, sort = stage.forward, FORWARD
    elif letter == "W":
        work, sort = StageWork(back.time * stage.weight_share, traffic=back.traffic), WEIGHT
    else:
        work, sort = (back.part(1 - stage.weight_share), INPUT) if split else (back, BACKWARD)
    inference = stage.backward is None
    return Step(
        place,
        number,
        letter,
        sort,
        work.time,
        work.incoming,
        work.outgoing,
        traffic=work.traffic,
        saves=held if letter == "F" else 0.0,
        frees=held if letter in ("B", "W") or inference else 0.0,
    )


def _whole_backwards(
    steps: list[Step],
    number: Mapping[tuple[str, int], int],
    rows: Sequence[Row],
    count: int,
    total: int,
) -> list[Step]:
    """Steps that know for which microbatches a schedule that splits backward work does not split it."""
    whole = np.zeros((count, total), dtype=bool)
    for row in rows:
        for stage, letter, microbatch in row.actions:
            if letter == "B":
                whole[stage, microbatch * row.replicas : (microbatch + 1) * row.replicas] = True
    steps = list(steps)
    for stage in range(count):
        if whole[stage].any():
            i, w = number["I", stage], number["W", stage]
            both = steps[i].time + steps[w].time
            steps[i] = replace(
                steps[i],
                times=np.where(whole[stage], both, steps[i].time),
                sorts=np.where(whole[stage], BACKWARD, INPUT),
            )
            steps[w] = replace(steps[w], times=np.where(whole[stage], 0.0, steps[w].time), absent=whole[stage])
    return steps


def _place(pipeline: Pipeline, mine: Sequence[int], schedule: Schedule) -> Place:
    """The place of a rank, which holds some stages."""
    stages = [pipeline.stages[s] for s in mine]
    first = stages[0]
    memory: dict[str, float] = {}
    for stage in stages:
        for name, size in stage.memory.items():
            memory[name] = memory.get(name, 0.0) + size
    versions = schedule.weight_versions(first.in_flight)
    if versions > 1:
        memory["weight versions"] = (versions - 1) * sum(stage.weight_bytes for stage in stages)
    return Place(
        name=f"stage {mine[0]}" if len(mine) == 1 else f"stages {', '.join(map(str, mine))}",
        replicas=first.replicas,
        instances=len(first.replicas),
        streams=pipeline.streams,
        memory=memory,
        workspace=max(stage.workspace for stage in stages),
        limit=first.limit,
        capacity=first.capacity,
    )
