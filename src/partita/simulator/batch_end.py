"""The end of a batch: replicas synchronise their weights, perhaps behind the last backward work, and update them."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Longs
from partita.simulator.builder import ProgramTasks
from partita.simulator.program import End
from partita.simulator.rounds import WORK
from partita.simulator.timeline import SYNC, UPDATE


def add_ends(builder: ProgramTasks) -> None:
    """Synchronisation and update of every place after every batch."""
    program = builder.program
    link_things: dict[int, Longs] = {}
    for end in program.ends:
        if end.link >= 0 and end.link not in link_things:
            # Links that take turns as they become ready are the same ones that the batch has used.
            shared = builder.link_things.get(end.link)
            link_things[end.link] = builder.new_things(program.places[end.link].instances) if shared is None else shared
    for number, end in enumerate(program.ends):
        if program.places[number].is_link:
            continue
        updated: list[Longs] = []
        if not program.flushes and end.update > 0:
            _share_device(builder, number)
        for batch in range(program.batches):
            if batch and program.versions and batch >= program.versions[number] and updated:
                replicas, steps, micro = _actions(builder, number, batch, last=False)
                builder.wait(builder.head[steps] + micro, updated[batch - program.versions[number]][replicas])
            updated.append(_end(builder, number, end, batch, link_things, updated[-1] if updated else None))


def _share_device(builder: ProgramTasks, number: int) -> None:
    """Let updates between two batches take the device for themselves: what is ready first goes first."""
    program = builder.program
    parts = range(3) if program.places[number].streams == "sum" else (WORK,)
    columns = [
        builder.column[s, part] for s, step in enumerate(program.steps) if step.place == number for part in parts
    ]
    builder.device_things[number] = builder.take_turns(number, [int(column) for column in columns if column >= 0])


def _end(
    builder: ProgramTasks, number: int, end: End, batch: int, link_things: dict[int, Longs], before: Longs | None
) -> Longs:
    """The end of one batch at one place, after that of the batch before; the last task of every replica."""
    _, steps, micro = _actions(builder, number, batch, last=True)
    instances = builder.program.places[number].instances
    done = builder.tail[steps] + micro
    if before is not None:
        # One batch's weights are synchronised and updated after those of the batch before.
        done = np.concatenate([done, before])
    lanes = builder.lane_of[number, "sync"]
    # What each replica has to wait for next: all of them have the same weights.
    joined: Longs = np.repeat(_join(builder, done), instances)
    if end.sync > 0 and end.behind:
        work = builder.column[steps, WORK] + micro
        times = np.concatenate([row[0] for row in builder.rows])[work]
        previous = before
        for share, time in end.behind:
            synced = builder.add(np.full(instances, time), SYNC, lanes, microbatches=np.full(instances, -1))
            builder.wait(synced, _join(builder, _milestones(builder, work, times * share)))
            if previous is not None:
                builder.wait(synced, previous)
            previous = synced
        assert previous is not None
        builder.wait(previous, _join(builder, done))
        joined = previous
    elif end.sync > 0:
        joined = builder.add(np.full(instances, end.sync), SYNC, lanes, microbatches=np.full(instances, -1))
        builder.wait(joined, _join(builder, done))
    if end.link_sync > 0:
        things = link_things[end.link]
        place = builder.program.places[end.link]
        stream = "out" if place.streams == "duplex" else "link"
        crossing = builder.add(
            np.full(place.instances, end.link_sync),
            SYNC,
            builder.lane_of[end.link, stream],
            microbatches=np.full(place.instances, -1),
        )
        builder.wait(crossing, _join(builder, joined))
        builder.hold(crossing, things)
        joined = np.repeat(_join(builder, crossing), instances)
    if end.update > 0:
        updated = builder.add(np.full(instances, end.update), UPDATE, lanes, microbatches=np.full(instances, -1))
        builder.wait(updated, joined)
        if number in builder.device_things:
            builder.hold(updated, builder.device_things[number])
        return updated
    return joined


def _join(builder: ProgramTasks, tasks: Longs) -> Longs:
    """One task that ends when all of these have."""
    if len(tasks) == 1:
        return tasks
    joined = builder.add(0.0, SYNC, -1)
    builder.wait(np.repeat(joined, len(tasks)), tasks)
    return joined


def _milestones(builder: ProgramTasks, works: Longs, durations: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Longs:
    """Tasks that end when work has gone on for so long: they wait for what the work waits for."""
    before, after = np.concatenate(builder.before), np.concatenate(builder.after)
    found = builder.add(durations, SYNC, -1, microbatches=np.full(len(works), -1))
    for work, milestone in zip(works.tolist(), found.tolist(), strict=True):
        sources = before[after == work]
        builder.wait(np.full(len(sources), milestone), sources)
        builder.stand_in[milestone] = work
    return found


def _actions(builder: ProgramTasks, number: int, batch: int, *, last: bool) -> tuple[Longs, Longs, Longs]:
    """The first or last action of each instance of a place that has one in a batch: instances, steps, microbatches."""
    program = builder.program
    instances, steps, micro = [], [], []
    for order in program.orders or ():
        if order.place == number:
            mine = np.flatnonzero(order.microbatches // program.microbatches == batch)
            if last:
                # What does not happen is not the last thing that does.
                happens = [
                    not _absent(builder, int(order.steps[place]), int(order.microbatches[place])) for place in mine
                ]
                mine = mine[happens]
            if not len(mine):
                continue
            place = mine[-1 if last else 0]
            instances.append(order.instance)
            steps.append(int(order.steps[place]))
            micro.append(int(order.microbatches[place]))
    return np.array(instances, np.int64), np.array(steps, np.int64), np.array(micro, np.int64)


def _absent(builder: ProgramTasks, step: int, microbatch: int) -> bool:
    absent = builder.program.steps[step].absent
    return absent is not None and bool(absent[microbatch])
