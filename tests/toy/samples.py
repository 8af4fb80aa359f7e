"""Independent tasks for the contract suite."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from contracts.samples import Family, Samples
from instances.strategies import halves
from toy.tasks import TASKS, Options, Schedule, TaskProblem

__all__ = ["SAMPLES"]

SIX = TaskProblem(name="six", machines=3, times=(3.0, 3.0, 2.0, 2.0, 2.0, 5.0))

#: Odd times on an even number of machines: the mean is not reached, so that the proof takes for ever.
MANY = TaskProblem(name="many", machines=8, times=tuple(7.0 + 2 * (5 * k % 37) for k in range(60)))


def optimum(problem: TaskProblem, options: Options) -> float | None:
    """By trying everything."""
    assignments = itertools.product(range(problem.machines), repeat=len(problem.times))
    found = [TASKS.evaluate(problem, Schedule(machines)) for machines in assignments]
    wanted = [worth for worth in found if worth.feasible and (options.assignment == "any" or worth.consecutive)]
    return min((worth.objective for worth in wanted), default=None)


def check(problem: TaskProblem, plan: Schedule, options: Options) -> None:
    """Every task has a machine."""
    assert len(plan.machines) == len(problem.times)


SAMPLES = Samples(
    families=(
        Family(
            "any",
            st.builds(
                TaskProblem,
                name=st.just("random"),
                machines=st.integers(1, 3),
                times=st.lists(halves(0.5, 4), min_size=1, max_size=5).map(tuple),
                most_tasks=st.none() | st.integers(1, 4),
            ),
            SIX,
        ),
    ),
    optimum=optimum,
    check=check,
    infeasible=(TaskProblem(name="full", machines=2, times=(1.0, 1.0, 1.0), most_tasks=1),),
    floors=((SIX, 17 / 3), (TaskProblem(name="long", machines=3, times=(1.0, 8.0, 2.0)), 8.0)),
    large=(MANY,),
)
