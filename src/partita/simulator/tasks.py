"""What the engine runs: tasks that wait for each other and for resources, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TaskGraph:
    """Tasks 0, 1, …, n − 1 with what each waits for, holds and moves.

    A task starts as soon as it is released, all it waits for has ended, and everything it holds is free. Of tasks that
    could start at the same instant and want the same thing, the one with the smallest (priority, time at which it
    became ready, number) goes first; a task that has to wait for one thing does not keep others from the rest. It ends
    after its duration and, if it moves an amount, as soon as that is moved after it: all that is being moved shares the
    links it uses by max-min fairness.

    Attributes
    ----------
    duration
        (n,) Time that passes whatever else happens; not negative.
    amount
        (n,) What is moved after that over the links the task uses; 0 for nothing. Who moves something uses a link.
    release
        (n,) Time before which the task does not start.
    priority
        (n,) Smaller goes first.
    before, after
        (e,) Task ``before[k]`` ends before ``after[k]`` starts.
    held_offsets, held
        (n + 1,) and (h,) The things that task i holds alone from start to end are
        ``held[held_offsets[i]:held_offsets[i + 1]]``, numbers below ``things``: streams, links, groups' turns.
    used_offsets, used
        (n + 1,) and (u,) The links that it shares while it moves its amount, numbers of entries of ``capacity``.
    things
        How many things there are to be held.
    capacity
        (links,) Amount per unit of time that all who use a link together can move; positive.
    """

    duration: Floats
    amount: Floats
    release: Floats
    priority: Floats
    before: Ints
    after: Ints
    held_offsets: Ints
    held: Ints
    used_offsets: Ints
    used: Ints
    things: int
    capacity: Floats

    @property
    def count(self) -> int:
        """How many tasks there are."""
        return len(self.duration)


@dataclass(frozen=True)
class Times:
    """When the tasks of a graph run.

    Attributes
    ----------
    start, end
        (n,) Times.
    cause
        (n,) The task whose end let it start when it did: the last of those that it waits for, or the one that held
        what it needed; −1 if it started at its release or at 0.
    """

    start: Floats
    end: Floats
    cause: Ints
