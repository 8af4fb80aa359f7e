"""Instances of the problem of the tests, and that problem with components that are wrong: what has to be found."""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable

from crosscheck.shapes import pool
from partita.components.register import register
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.problems.kind import BoundMethod, Solver
from partita.problems.outcome import Outcome
from toy.tasks import TASKS, Branching, ListOrder, Mean, Options, Schedule, TaskProblem, Tasks

__all__ = ["FAMILIES", "crashing", "hanging", "problems", "right", "wrong"]


def few(rng: random.Random) -> TaskProblem:
    """A handful of tasks."""
    draw = pool(rng, "ties", "tenths", "whole", "smooth", "wide")
    return TaskProblem(
        name="drawn",
        machines=rng.randint(1, 3),
        times=tuple(draw() for _ in range(rng.randint(1, 6))),
        most_tasks=rng.choice((None, None, 1, 2, 4)),
    )


FAMILIES: dict[str, Callable[[random.Random], TaskProblem]] = {"few": few}


def problems(rng: random.Random) -> TaskProblem:
    """One of any family."""
    return few(rng)


class TooMuch(BoundMethod[TaskProblem]):
    """The mean rounded up, as if times were whole."""

    name = "too much"
    summary = "the mean time of the machines, rounded up"

    def bound(self, problem: TaskProblem, monitor: Monitor) -> Bound:
        return Bound(math.ceil(Mean().bound(problem, monitor).value), self.name)


class NoPlan(Solver[TaskProblem, Schedule, Options]):
    """Says that there is none where the machines are just full."""

    name = "no plan"
    summary = "no plan where the machines are full"

    def solve(self, problem: TaskProblem, options: Options, monitor: Monitor) -> Outcome[Schedule]:
        most = problem.most_tasks
        return Outcome(None, infeasible=most is not None and len(problem.times) >= most * problem.machines)


class Raises(Solver[TaskProblem, Schedule, Options]):
    """Looks for a fourth task."""

    name = "raises"
    summary = "an error for three tasks"

    def solve(self, problem: TaskProblem, options: Options, monitor: Monitor) -> Outcome[Schedule]:
        if len(problem.times) == 3:
            raise KeyError(problem.times[0])
        return Outcome(None, reason="it never finds anything")


class Crashes(Solver[TaskProblem, Schedule, Options]):
    """Takes the process with it."""

    name = "crashes"
    summary = "the end of the process for four tasks"

    def solve(self, problem: TaskProblem, options: Options, monitor: Monitor) -> Outcome[Schedule]:
        if len(problem.times) == 4:
            os._exit(3)
        return Outcome(None, reason="it never finds anything")


class Hangs(Solver[TaskProblem, Schedule, Options]):
    """Never ends."""

    name = "hangs"
    summary = "waits, or works, for ever"

    def solve(self, problem: TaskProblem, options: Options, monitor: Monitor) -> Outcome[Schedule]:
        while len(problem.times) > 1:
            if problem.machines > 1:
                time.sleep(0.1)
        return Outcome(None, reason="it never finds anything")


class WrongTasks(Tasks):
    """With a bound that claims too much, a search that denies plans, and one that fails."""

    solvers = (Branching(), NoPlan(), Raises())
    bounds = (Mean(), TooMuch())
    baselines = (ListOrder(),)


class CrashingTasks(Tasks):
    """With a search that crashes."""

    solvers = (Branching(), Crashes())


class HangingTasks(Tasks):
    """With a search that does not end."""

    solvers = (Branching(), Hangs())


def right() -> None:
    """Register the problem as it is."""
    register(TASKS)


def wrong() -> None:
    """Register it with wrong components."""
    register(WrongTasks())


def crashing() -> None:
    """Register it with one that crashes."""
    register(CrashingTasks())


def hanging() -> None:
    """Register it with one that does not end."""
    register(HangingTasks())
