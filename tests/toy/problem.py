"""Independent tasks on identical machines: what is given, what is decided, and what that is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import msgspec

from partita.errors import InputError
from partita.problems.kind import SearchOptions
from partita.problems.settings import setting

__all__ = ["Changes", "Options", "Schedule", "TaskProblem", "Worth", "evaluate"]


class TaskProblem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The time of every task, how many machines there are, and most tasks that one of them takes (None: any number)."""

    kind: ClassVar[str] = "tasks"
    format: ClassVar[str] = "toy.tasks"
    version: ClassVar[int] = 1

    name: str
    machines: int
    times: tuple[float, ...]
    most_tasks: int | None = None
    unit: str = "s"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.machines < 1 or not self.times or min(self.times) <= 0:
            raise InputError(f"problem {self.name!r} needs a machine, and tasks that take time")


class Options(SearchOptions, frozen=True, kw_only=True):
    """What a search may use."""

    assignment: Annotated[
        Literal["any", "consecutive"], setting("consecutive: each machine takes tasks that follow one another.")
    ] = "any"


class Changes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be changed of a problem."""

    machines: Annotated[int | None, setting("Number of machines.", metavar="N", least=1)] = None
    most_tasks: Annotated[int | None, setting("Most tasks of a machine.", metavar="N", least=1)] = None


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The machine of every task."""

    machines: tuple[int, ...]


@dataclass(frozen=True)
class Worth:
    """The time of every machine, what is wrong, and whether each takes tasks that follow one another."""

    loads: tuple[float, ...]
    violations: tuple[str, ...]
    consecutive: bool

    @property
    def objective(self) -> float:
        """When the last machine is done."""
        return max(self.loads)

    @property
    def feasible(self) -> bool:
        """Whether no machine takes too many tasks."""
        return not self.violations


def evaluate(problem: TaskProblem, plan: Schedule) -> Worth:
    """The makespan, from the problem alone."""
    if len(plan.machines) != len(problem.times) or not set(plan.machines) <= set(range(problem.machines)):
        raise InputError("a schedule names one of the problem's machines for every task")
    loads, counts = [0.0] * problem.machines, [0] * problem.machines
    for time, machine in zip(problem.times, plan.machines, strict=True):
        loads[machine] += time
        counts[machine] += 1
    most = problem.most_tasks
    over = [f"machine {i} takes {n} tasks, at most {most} fit" for i, n in enumerate(counts) if n > (most or n)]
    return Worth(tuple(loads), tuple(over), plan.machines == tuple(sorted(plan.machines)))
