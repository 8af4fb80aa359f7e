"""A solver, a bound and a baseline for independent tasks."""

from __future__ import annotations

import math

from partita.problems.kind import Outcome
from partita.run.monitor import Monitor
from partita.run.result import Bound
from toy.problem import Options, Schedule, TaskProblem

__all__ = ["Branching", "ListOrder", "Mean"]

#: Most tasks that are searched: each is one level of a recursion.
MOST_TASKS = 200


class Branching:
    """Depth-first branch and bound."""

    name = "branching"
    summary = "every assignment that may be better than the best one, long tasks first"

    def supports(self, problem: TaskProblem, options: Options) -> str | None:
        """Not too many tasks."""
        many = len(problem.times) > MOST_TASKS
        return f"it searches at most {MOST_TASKS} tasks; use `list order`" if many else None

    def solve(self, problem: TaskProblem, options: Options, monitor: Monitor) -> Outcome[Schedule]:
        """Until all is tried, or told to stop."""
        times, machines, row = problem.times, range(problem.machines), options.assignment == "consecutive"
        order = list(range(len(times))) if row else sorted(range(len(times)), key=lambda task: -times[task])
        most = problem.most_tasks or len(times)
        loads, counts, chosen = [0.0] * len(machines), [0] * len(machines), [0] * len(times)
        best, plan, least, complete = math.inf, None, _mean(problem), True
        monitor.report(bound=least)

        def place(depth: int, last: int) -> None:
            nonlocal best, plan, complete
            if depth == len(order):
                best, plan = max(loads), Schedule(tuple(chosen))
                monitor.report(objective=best)
                return
            time, tried = times[order[depth]], set()
            for machine in machines[last : last + 2] if row else sorted(machines, key=loads.__getitem__):
                load, alike = loads[machine], (loads[machine], counts[machine], row and machine)
                if alike in tried or counts[machine] == most or load + time >= best or best <= least:
                    continue
                if monitor.stopping:
                    complete = False
                    return
                tried.add(alike)
                chosen[order[depth]], loads[machine], counts[machine] = machine, load + time, counts[machine] + 1
                place(depth + 1, machine)
                loads[machine], counts[machine] = load, counts[machine] - 1

        place(0, 0)
        return Outcome(plan, best if plan and complete else least, infeasible=complete and plan is None)


class Mean:
    """No machine is done before the mean of all, nor before its longest task."""

    name = "mean"
    summary = "the mean time of the machines, or the longest task"
    scope = ""

    def supports(self, problem: TaskProblem) -> str | None:
        """Every problem."""
        return None

    def bound(self, problem: TaskProblem, monitor: Monitor) -> Bound:
        """The larger of the two."""
        return Bound(_mean(problem), self.name, self.scope, monitor.elapsed_s)


def _mean(problem: TaskProblem) -> float:
    return max(sum(problem.times) / problem.machines, *problem.times)


class ListOrder:
    """Tasks as they are listed, each on the machine that is done first."""

    name = "list order"
    summary = "every task on the machine that is done first, as listed"

    def supports(self, problem: TaskProblem, options: Options) -> str | None:
        """Every problem, and any assignment."""
        return None if options.assignment == "any" else "it does not keep tasks in a row; ask for --assignment any"

    def solve(self, problem: TaskProblem, options: Options, monitor: Monitor) -> Outcome[Schedule]:
        """One pass."""
        loads, chosen = [0.0] * problem.machines, []
        for time in problem.times:
            chosen.append(min(range(problem.machines), key=loads.__getitem__))
            loads[chosen[-1]] += time
        return Outcome(Schedule(tuple(chosen)))
