"""The event loop of the simulator: see ``partita.simulator.engine`` for what it works out.

An instant has one round or several. A round takes all that happens at it (releases, ends, begins of moving), in the
order of the tasks' numbers, and then hands out: of the tasks that are ready each starts, in their order, if all it
holds is free at that moment. What then ends at the same instant makes a further round. Rates are worked out before
time goes on.

A task that cannot start is parked at one busy thing that it wants. It cannot start before that one is free, so a round
looks at the tasks that became ready in it and at the first task parked at every thing freed in it; the next one there
has its turn when the first moved on to another busy thing. Of the tasks that hold the same things one, their leader, is
parked for those that come after it: while it waits, none of them can start.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs, zeros
from partita.engines.kernels.compiled import allocating_nothing, inlined
from partita.engines.kernels.rows import row_of
from partita.engines.kernels.simulator.queues import (
    Pile,
    Queue,
    empty_queue,
    goes_first,
    pile_of,
    put,
    take,
    with_task,
    without_first,
)
from partita.engines.kernels.simulator.sharing import Sharing, come, go, share

_UNRELEASED, _LASTING, _MOVING = 0, 1, 2


class TaskArrays(NamedTuple):
    """The n tasks as ``TaskGraph`` has them, but for the links; of precedence what each task is waited for by."""

    #: (n,) Floats.
    duration: Floats
    amount: Floats
    release: Floats
    #: (n + 1,) and (e,) Task i ends before those of ``after[after_offsets[i]:after_offsets[i + 1]]`` start.
    after_offsets: Longs
    after: Ints
    #: (n + 1,) and (h,) The things that task i holds.
    held_offsets: Longs
    held: Longs
    group: Longs  #: (n,) Equal for tasks that hold the same things; numbers below the number of groups.


class State(NamedTuple):
    """How far n tasks and t things are."""

    #: Tasks by the time of what comes next of them: their release, the end of their duration, their end. Of a task that
    #: ended the key is its end.
    events: Queue
    #: (n,) As in ``Times``; NaN before it starts.
    start: Floats
    cause: Longs
    ready: Floats  #: (n,) Time at which a task became ready.
    step: Ints  #: (n,) What comes next.
    missing: Ints  #: (n,) How many of those it waits for have not ended.
    fresh: Ints  #: (n,) The tasks to look at in this round, before they are sorted.
    looked_at: Pile  #: Their pile.
    #: Piles of the tasks that wait, and (n,) where a task is parked, −1 for nowhere.
    parked: Pile
    parked_at: Ints
    first: Ints  #: (t,) The pile parked at a thing.
    busy: Ints  #: (t,) Whether it is held.
    #: (t,) How many tasks had ended when it was freed last, 0 if it never was, and which one freed it.
    freed: Ints
    freed_by: Ints
    #: (groups,) The parked task of a group that is ahead of others, and their pile; −1 for none. A task that came later
    #: and goes before the leader is parked by itself.
    leader: Ints
    followers: Ints


def nothing_run(priority: Floats, missing: Ints, things: int, groups: int) -> State:
    """Before anything runs; ``missing`` (n,) is how many tasks each one waits for."""
    n = len(priority)
    ready = np.zeros(n)
    return zeros(
        State,
        ("step fresh", n),
        ("busy freed", things),
        events=empty_queue(np.zeros(n)),
        start=np.full(n, np.nan),
        cause=np.full(n, -1, np.int64),
        ready=ready,
        missing=missing,
        looked_at=Pile(priority, ready, np.zeros(n, np.int32), np.zeros(n, np.int32)),
        parked=Pile(priority, ready, np.zeros(n, np.int32), np.zeros(n, np.int32)),
        parked_at=np.full(n, -1, np.int32),
        first=np.full(things, -1, np.int32),
        freed_by=np.full(things, -1, np.int32),
        leader=np.full(groups, -1, np.int32),
        followers=np.full(groups, -1, np.int32),
    )


@inlined
def _start(tasks: TaskArrays, s: State, i: int, now: float) -> None:
    """Start a task, and say why now: if it was not ready only now, because of what was freed last of what it wants."""
    held_back, latest = s.ready[i] < now, 0
    for thing in row_of(tasks.held_offsets, tasks.held, i):
        s.busy[thing] = 1
        if held_back and s.freed[thing] > latest:
            latest = s.freed[thing]
            s.cause[i] = s.freed_by[thing]
    s.start[i] = now
    s.step[i] = _LASTING
    put(s.events, i, now + tasks.duration[i])


@inlined
def _busy_thing(tasks: TaskArrays, s: State, i: int) -> int:
    """The first thing a task wants that is held, −1 for none."""
    for u in row_of(tasks.held_offsets, tasks.held, i):
        if s.busy[u]:
            return int(u)
    return -1


@inlined
def _park(s: State, i: int, thing: int) -> None:
    s.first[thing] = with_task(s.parked, s.first[thing], i)
    s.parked_at[i] = thing


@inlined
def _wait(tasks: TaskArrays, s: State, i: int, thing: int) -> None:
    """Let a task that is not parked wait for a busy thing, behind the leader of its group if that goes before it."""
    group = tasks.group[i]
    leader = s.leader[group]
    if leader >= 0 and goes_first(s.parked, leader, i):
        s.followers[group] = with_task(s.parked, s.followers[group], i)
        return
    if leader < 0:
        s.leader[group] = i
    _park(s, i, thing)


@inlined
def _succeed(tasks: TaskArrays, s: State, i: int) -> None:
    """If a task that has started was the leader of its group, its first follower is; what it wants is busy now."""
    group = tasks.group[i]
    if s.leader[group] == i:
        heir = s.followers[group]
        s.leader[group] = heir
        if heir >= 0:
            s.followers[group] = without_first(s.parked, heir)
            _park(s, heir, tasks.held[tasks.held_offsets[heir]])


@inlined
def _hand_out(tasks: TaskArrays, s: State, fresh: int, now: float) -> None:
    """Start all that can start, in their order; ``fresh`` is how many tasks there are to look at in the beginning."""
    top = pile_of(s.looked_at, s.fresh, fresh)
    while top >= 0:
        i, here = top, s.parked_at[top]
        top = without_first(s.looked_at, top)
        if here >= 0 and s.busy[here]:
            continue  # Taken by one before it: it stays there with all the others.
        there = _busy_thing(tasks, s, i)
        if here >= 0:
            s.first[here] = without_first(s.parked, i)
            if there >= 0 and s.first[here] >= 0:
                top = with_task(s.looked_at, top, s.first[here])
        if there < 0:
            _start(tasks, s, i, now)
            _succeed(tasks, s, i)
        elif here >= 0:
            _park(s, i, there)
        else:
            _wait(tasks, s, i, there)


@inlined
def _admit(tasks: TaskArrays, s: State, i: int, fresh: int, now: float) -> int:
    """All that a task waits for has ended: it is ready, or waits for its release; how many there are to look at."""
    if tasks.release[i] > now:
        put(s.events, i, tasks.release[i])
        return fresh
    s.ready[i] = now
    s.fresh[fresh] = i
    return fresh + 1


@inlined
def _end(tasks: TaskArrays, s: State, i: int, fresh: int, ended: int, now: float) -> int:
    """Free what a task held and tell those who wait for it, as the one of that number; how many to look at."""
    for thing in row_of(tasks.held_offsets, tasks.held, i):
        s.busy[thing] = 0
        s.freed[thing] = ended
        s.freed_by[thing] = i
        if s.first[thing] >= 0:
            s.fresh[fresh] = s.first[thing]
            fresh += 1
    for j in row_of(tasks.after_offsets, tasks.after, i):
        s.missing[j] -= 1
        if s.missing[j] == 0:
            if tasks.release[j] <= now:
                s.cause[j] = i
            fresh = _admit(tasks, s, j, fresh, now)
    return fresh


@allocating_nothing
def run_tasks(tasks: TaskArrays, s: State, sharing: Sharing) -> int:
    """Run all tasks from time 0; how many ended.

    Fewer than there are means that the others wait for each other. ``s.start``, ``s.events.key`` (the ends) and
    ``s.cause`` are the result. All times must stay finite.
    """
    # Steps would be compiled for a plain 0 first, and for numbers then.
    zero: int = np.int64(0)  # type: ignore[assignment]
    now, ended, fresh, events = 0.0, zero, zero, s.events
    for i in range(len(tasks.duration)):
        if s.missing[i] == 0:
            fresh = _admit(tasks, s, i, fresh, now)
    _hand_out(tasks, s, fresh, now)
    while True:
        if sharing.touched[0] > 0 and (events.size[0] == 0 or events.key[events.members[0]] > now):
            share(sharing, now, events)
        if events.size[0] == 0:
            return ended
        now, fresh = events.key[events.members[0]], zero
        while events.size[0] > 0 and events.key[events.members[0]] == now:
            i = take(events)
            if s.step[i] == _UNRELEASED:
                s.ready[i] = now
                s.fresh[fresh] = i
                fresh += 1
            elif s.step[i] == _LASTING and tasks.amount[i] > 0.0:
                s.step[i] = _MOVING
                come(sharing, i)
            else:
                if s.step[i] == _MOVING:
                    go(sharing, i)
                ended += 1
                fresh = _end(tasks, s, i, fresh, ended, now)
        _hand_out(tasks, s, fresh, now)
