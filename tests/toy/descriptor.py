"""Independent tasks on identical machines, as the package sees them: ``partita.problems.register(TASKS)``."""

from __future__ import annotations

from partita.problems.kind import Kind
from toy.components import Branching, ListOrder, Mean
from toy.problem import Changes, Options, Schedule, TaskProblem, Worth, evaluate

__all__ = ["TASKS"]


class Tasks(Kind[TaskProblem, Schedule, Worth]):
    """Independent tasks on identical machines, so that the last one is done early."""

    name = "tasks"
    summary = "independent tasks on identical machines, the last one done as early as possible"
    problem = TaskProblem
    plan = Schedule
    options = Options
    changes = Changes
    solvers = (Branching(),)
    bounds = (Mean(),)
    baselines = (ListOrder(),)

    def evaluate(self, problem: TaskProblem, plan: Schedule) -> Worth:
        """The makespan."""
        return evaluate(problem, plan)

    def keeps(self, problem: TaskProblem, evaluation: Worth, options: Options) -> str | None:
        """Consecutive tasks, where they were asked for."""
        if options.assignment == "consecutive" and not evaluation.consecutive:
            return "a machine takes tasks that do not follow one another"
        return None

    def scope(self, options: Options) -> str:
        """The assignment asked for; empty for any."""
        return "" if options.assignment == "any" else options.assignment

    def covers(self, scope: str, options: Options) -> bool:
        """What holds for any assignment holds for consecutive ones."""
        return scope in ("", self.scope(options))


TASKS = Tasks()
