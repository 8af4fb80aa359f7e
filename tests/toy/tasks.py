"""Independent tasks on identical machines, as a problem from elsewhere: ``partita.register(TASKS)``."""

from __future__ import annotations

import math
from collections import Counter
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound, PlanEvaluation
from partita.ground.errors import InputError
from partita.problems.kind import BoundMethod, Kind, SearchOptions, Solver, Stated
from partita.problems.outcome import Outcome
from partita.problems.settings import setting


class TaskProblem(Stated, frozen=True, kw_only=True):
    """The time of every task, how many machines there are, and most tasks that one of them takes (None: any number)."""

    kind: ClassVar[str] = "tasks"
    format: ClassVar[str] = "toy.tasks"

    machines: Annotated[int, setting("Number of machines.", metavar="N", least=1)]
    times: tuple[float, ...]
    most_tasks: Annotated[int | None, setting("Most tasks of a machine.", metavar="N", least=1)] = None

    def __post_init__(self) -> None:
        if self.machines < 1 or not self.times or min(self.times) <= 0:
            raise InputError(f"problem {self.name!r} needs a machine, and tasks that take time")


class Options(SearchOptions, frozen=True, kw_only=True):
    """What a search may use."""

    assignment: Annotated[
        Literal["any", "consecutive"], setting("consecutive: each machine takes tasks that follow one another.")
    ] = "any"

    @property
    def scope(self) -> str:
        """The assignment asked for; empty for any."""
        return "" if self.assignment == "any" else self.assignment

    def unkept(self, evaluation: Any) -> str | None:
        """Consecutive tasks, where they were asked for."""
        kept = evaluation.consecutive or self.assignment == "any"
        return None if kept else "a machine takes tasks that do not follow one another"


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The machine of every task."""

    machines: tuple[int, ...]


class Makespan(PlanEvaluation, frozen=True, kw_only=True):
    """When the last machine is done, and whether each takes tasks that follow one another."""

    consecutive: bool


class Mean(BoundMethod[TaskProblem]):
    """No machine is done before the mean of all, nor before its longest task."""

    name = "mean"
    summary = "the mean time of the machines, or the longest task"
    argument = "some machine takes at least the mean, and some machine the longest task"

    def bound(self, problem: TaskProblem, monitor: Monitor) -> Bound:
        value = max(sum(problem.times) / problem.machines, *problem.times)
        return Bound(value, self.name, self.scope, monitor.elapsed_s)


class Branching(Solver[TaskProblem, Schedule, Options]):
    """Depth-first branch and bound; each task is one level of a recursion."""

    name = "branching"
    summary = "every assignment that may be better than the best one, long tasks first"
    argument = "every assignment that may be better was tried, or one met the mean or the longest task"

    def supports(self, problem: TaskProblem, options: Options) -> str | None:
        return None if len(problem.times) <= 200 else "it searches at most 200 tasks; use `list order`"

    def solve(self, problem: TaskProblem, options: Options, monitor: Monitor) -> Outcome[Schedule]:
        times, machines, row = problem.times, range(problem.machines), options.assignment == "consecutive"
        order = sorted(range(len(times)), key=lambda task: task if row else -times[task])
        loads, counts, chosen = [0.0] * len(machines), [0] * len(machines), [0] * len(times)
        best, plan, least, complete = math.inf, None, Mean().bound(problem, monitor).value, True
        monitor.report(bound=least)

        def place(depth: int, last: int) -> None:
            nonlocal best, plan, complete
            if depth == len(order):
                best, plan = max(loads), Schedule(tuple(chosen))
                monitor.report(objective=best)
                return
            task, tried = order[depth], set()
            for machine in machines[last : last + 2] if row else sorted(machines, key=loads.__getitem__):
                before, count = loads[machine], counts[machine]
                alike = (before, count, row and machine)
                load = before + times[task]
                if alike in tried or count == problem.most_tasks or load >= best or best <= least:
                    continue
                if monitor.stopping:
                    complete = False
                    return
                tried.add(alike)
                chosen[task], loads[machine], counts[machine] = machine, load, count + 1
                place(depth + 1, machine)
                loads[machine], counts[machine] = before, count

        place(0, 0)
        return Outcome(plan, best if plan and complete else least, infeasible=complete and plan is None)


class ListOrder(Solver[TaskProblem, Schedule, Options]):
    """Tasks as they are listed, each on the machine that is done first."""

    name = "list order"
    summary = "every task on the machine that is done first, as listed"

    def supports(self, problem: TaskProblem, options: Options) -> str | None:
        return None if options.assignment == "any" else "it does not keep tasks in a row; ask for --assignment any"

    def solve(self, problem: TaskProblem, options: Options, monitor: Monitor) -> Outcome[Schedule]:
        loads, chosen = [0.0] * problem.machines, []
        for time in problem.times:
            chosen.append(loads.index(min(loads)))
            loads[chosen[-1]] += time
        return Outcome(Schedule(tuple(chosen)))


class Tasks(Kind[TaskProblem, Schedule, Makespan]):
    """Independent tasks on identical machines, so that the last one is done early."""

    summary = "independent tasks on identical machines, the last one done as early as possible"
    problem = TaskProblem
    plan = Schedule
    options = Options
    solvers = (Branching(),)
    usual_solver = "branching"
    bounds = (Mean(),)
    baselines = (ListOrder(),)

    def evaluate(self, problem: TaskProblem, plan: Schedule) -> Makespan:
        """Loads of the machines, and how many tasks each takes."""
        if len(plan.machines) != len(problem.times) or not set(plan.machines) <= set(range(problem.machines)):
            raise InputError("a schedule names one of the problem's machines for every task")
        loads, counts, most = [0.0] * problem.machines, Counter(plan.machines), problem.most_tasks
        for time, machine in zip(problem.times, plan.machines, strict=True):
            loads[machine] += time
        over = [f"machine {i} takes {n} tasks, at most {most} fit" for i, n in counts.items() if n > (most or n)]
        row = plan.machines == tuple(sorted(plan.machines))
        return Makespan(objective=max(loads), violations=tuple(over), consecutive=row)


TASKS = Tasks()
