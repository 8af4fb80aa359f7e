"""What the engine runs, tasks that wait for each other and for resources, as arrays; and when they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from partita.engines.kernels.arrays import Bools, Floats, Longs
from partita.ground.errors import InputError, StuckError

#: Times beyond this are refused: sums of them would not be finite.
_LATEST = 1e300
#: The kernels number tasks, edges and places with 32 bits.
_MOST = 2**31 - 1
#: For arrays that are not so the kernel would be compiled again.
_AS_COMPILED: Final = ("C_CONTIGUOUS", "ALIGNED", "WRITEABLE")


@dataclass(frozen=True)
class TaskGraph:
    """Tasks 0, 1, …, n − 1 with what each waits for, holds and moves.

    A task starts as soon as it is released, all it waits for has ended, and everything it holds is free. Of tasks that
    could start at the same instant and want the same thing, the one with the smallest (priority, time at which it
    became ready, number) goes first; a task that has to wait for one thing does not keep others from the rest. It ends
    after its duration and, if it moves an amount, as soon as that is moved after it: all that is being moved shares the
    links it uses by max-min fairness.
    """

    duration: Floats  #: (n,) Time that passes whatever else happens; not negative.
    #: (n,) What is moved after that over the links the task uses; 0 for nothing. Who moves something uses a link.
    amount: Floats
    release: Floats  #: (n,) Time before which the task does not start.
    priority: Floats  #: (n,) Smaller goes first.
    #: (e,) Task ``before[k]`` ends before ``after[k]`` starts.
    before: Longs
    after: Longs
    #: (n + 1,) and (h,) The things that task i holds alone from start to end are ``held[held_offsets[i]:held_offsets[i
    #: + 1]]``, numbers below ``things``: streams, links, groups' turns.
    held_offsets: Longs
    held: Longs
    #: (n + 1,) and (u,) The links that it shares while it moves its amount, numbers of entries of ``capacity``.
    used_offsets: Longs
    used: Longs
    things: int  #: How many things there are to be held.
    capacity: Floats  #: (links,) Amount per unit of time that all who use a link together can move; positive.

    @property
    def count(self) -> int:
        """How many tasks there are."""
        return len(self.duration)


@dataclass(frozen=True)
class Times:
    """When the tasks of a graph run."""

    #: (n,) Times.
    start: Floats
    end: Floats
    #: (n,) The task whose end let it start when it did: the last of those that it waits for, or the one that held what
    #: it needed; −1 if it started at its release or at 0.
    cause: Longs


def run(graph: TaskGraph) -> Times:
    """When every task starts and ends, and which task's end let it start.

    The same graph always gives the same times. A task that starts at the instant at which it became ready has the last
    of those that it waits for as its cause, if that one ended at this instant, and otherwise what was freed last of
    what it holds. Of the tasks that end together in a round of an instant the one with the largest number is the last.

    Raises ``StuckError`` if tasks wait for each other in a circle; ``InputError`` where arrays do not fit each other, a
    number is out of its range, a task holds a thing or uses a link twice or moves something over no link.
    """
    from partita.engines.kernels.simulator.events import TaskArrays, nothing_run, run_tasks
    from partita.engines.kernels.simulator.sharing import nothing_moved

    tasks = _checked(graph)
    n = tasks.count
    order = np.argsort(tasks.before, kind="stable")
    group, groups = _groups(tasks)
    missing = np.bincount(tasks.after, minlength=n).astype(np.int32)
    state = nothing_run(tasks.priority, missing, tasks.things, groups)
    ended = run_tasks(
        TaskArrays(
            duration=tasks.duration,
            amount=tasks.amount,
            release=tasks.release,
            after_offsets=np.concatenate(([0], np.cumsum(np.bincount(tasks.before, minlength=n)))),
            after=tasks.after[order].astype(np.int32),
            held_offsets=tasks.held_offsets,
            held=tasks.held,
            group=group,
        ),
        state,
        nothing_moved(tasks.capacity, tasks.used_offsets, tasks.used, tasks.amount),
    )
    if ended < n:
        task = int(np.isnan(state.start).argmax())
        raise StuckError(
            f"task {task} can never start: it is on a circle of tasks that wait for each other, or waits for one; "
            "take out one of the circle's edges",
            task,
        )
    return Times(state.start, state.events.key, state.cause)


def _groups(tasks: TaskGraph) -> tuple[Longs, int]:
    """(n,) Numbers that are equal for tasks that hold the same things, and a number above all of them."""
    lengths, starts = np.diff(tasks.held_offsets), tasks.held_offsets[:-1]
    held, things, most = tasks.held, tasks.things, int(lengths.max(initial=0))
    if most > 1:
        held = np.sort(np.repeat(np.arange(tasks.count), lengths) * things + held) % things
    group, groups = np.full(tasks.count, things, np.int64), things + 1
    group[lengths > 0] = held[starts[lengths > 0]]
    for place in range(1, most):
        # Those that hold more are told apart by the next thing as well.
        some = np.flatnonzero(lengths > place)
        kinds, kind = np.unique(group[some] * things + held[starts[some] + place], return_inverse=True)
        group[some] = groups + kind
        groups += len(kinds)
    return group, groups


def _checked(graph: TaskGraph) -> TaskGraph:
    """The same tasks, all arrays of the types that the kernel is compiled for, or a refusal."""
    n = graph.count
    if graph.things < 0:
        raise InputError(f"task graph: things is {graph.things}; it must not be negative")
    tasks = TaskGraph(
        duration=_numbers("duration", graph.duration, n),
        amount=_numbers("amount", graph.amount, n),
        release=_numbers("release", graph.release, n),
        priority=_numbers("priority", graph.priority, n),
        before=_whole("before", graph.before),
        after=_whole("after", graph.after),
        held_offsets=_whole("held_offsets", graph.held_offsets),
        held=_whole("held", graph.held),
        used_offsets=_whole("used_offsets", graph.used_offsets),
        used=_whole("used", graph.used),
        things=int(graph.things),
        capacity=_numbers("capacity", graph.capacity, len(graph.capacity)),
    )
    for name in ("duration", "amount", "release"):
        _refuse("task", name, getattr(tasks, name), ~(getattr(tasks, name) >= 0), "finite and not negative")
    _refuse("link", "capacity", tasks.capacity, ~(tasks.capacity > 0), "finite and positive")
    _check_edges(tasks)
    _check_lists("held", tasks.held_offsets, tasks.held, n, "holds thing", tasks.things)
    _check_lists("used", tasks.used_offsets, tasks.used, n, "uses link", len(tasks.capacity))
    lost = (tasks.amount > 0) & (np.diff(tasks.used_offsets) == 0)
    if lost.any():
        task = int(lost.argmax())
        raise InputError(f"task {task}: amount is {tasks.amount[task]}, but it uses no link; give it one, or amount 0")
    _check_sums(tasks)
    return tasks


def _numbers(name: str, values: Floats, count: int) -> Floats:
    """As floats, ``count`` of them and all finite."""
    array = np.require(values, np.float64, _AS_COMPILED)
    if np.shape(values) != (count,):
        raise InputError(f"task graph: {name} has shape {np.shape(values)}; it must be ({count},)")
    _refuse("link" if name == "capacity" else "task", name, array, ~np.isfinite(array), "finite")
    return array


def _refuse(owner: str, name: str, array: Floats, wrong: Bools, rule: str) -> None:
    """Refuse the first entry that is wrong."""
    if wrong.any():
        at = int(wrong.argmax())
        raise InputError(f"{owner} {at}: {name} is {array[at]}; it must be {rule}")


def _whole(name: str, values: Longs) -> Longs:
    """As whole numbers, in one dimension."""
    array = np.asarray(values)
    if array.ndim != 1 or len(array) > _MOST:
        raise InputError(f"task graph: {name} has shape {array.shape}; it must have one dimension and at most {_MOST}")
    if len(array) and array.dtype.kind not in "iu":
        raise InputError(f"task graph: {name} has the type {array.dtype}; it must hold whole numbers, as int64")
    return np.require(array, np.int64, _AS_COMPILED)


def _check_edges(tasks: TaskGraph) -> None:
    """Refuse edges from or to what is no task."""
    if len(tasks.before) != len(tasks.after):
        raise InputError(
            f"task graph: before has {len(tasks.before)} entries and after {len(tasks.after)}; each edge needs both"
        )
    for name, ends in (("before", tasks.before), ("after", tasks.after)):
        wrong = (ends < 0) | (ends >= tasks.count)
        if wrong.any():
            edge = int(wrong.argmax())
            raise InputError(
                f"edge {edge}: {name} is {ends[edge]}; it must be the number of one of the {tasks.count} tasks, "
                "which count from 0"
            )


def _check_lists(name: str, offsets: Longs, members: Longs, n: int, says: str, count: int) -> None:
    """Refuse lists of the tasks that are cut wrongly, or name what is not there, or something twice."""
    if len(offsets) != n + 1 or offsets[0] != 0 or offsets[-1] != len(members) or (np.diff(offsets) < 0).any():
        raise InputError(
            f"task graph: {name}_offsets must be {n + 1} numbers that never fall, "
            f"from 0 to {len(members)}, the length of {name}"
        )
    wrong = (members < 0) | (members >= count)
    if wrong.any():
        at = int(wrong.argmax())
        task = int(np.searchsorted(offsets, at, "right")) - 1
        raise InputError(f"task {task} {says} {members[at]}; there are {count}, which count from 0")
    lengths = np.diff(offsets)
    if not (lengths > 1).any():
        return
    several = np.repeat(lengths > 1, lengths)
    key = np.repeat(np.arange(n), lengths)[several] * count + members[several]
    key.sort()
    twice = key[1:] == key[:-1]
    if twice.any():
        task, member = divmod(int(key[twice.argmax()]), count)
        raise InputError(f"task {task} {says} {member} twice; name it once")


def _check_sums(tasks: TaskGraph) -> None:
    """Refuse what could take longer than numbers can say: one task after the other, each with the worst rate."""
    with np.errstate(over="ignore", divide="ignore"):
        longest = tasks.release.max(initial=0.0) + tasks.duration.sum()
        if tasks.amount.any():
            longest += tasks.amount.sum() / (tasks.capacity.min() / tasks.count)
    if not longest < _LATEST:
        raise InputError(f"task graph: it could take {longest}, which is beyond {_LATEST}; choose larger units")
