"""What makers of one schedule have in common."""

from __future__ import annotations

from abc import abstractmethod

from partita.engines.search.monitor import Monitor
from partita.problems.makespan.greedy import Growing
from partita.problems.makespan.heuristics.base import Heuristic
from partita.problems.makespan.instance import MakespanInstance, build_instance
from partita.problems.makespan.problem import MakespanProblem
from partita.problems.makespan.schedules import list_schedule
from partita.problems.makespan.solvers.protocol import Options, Outcome, Solver


class Baseline(Solver):
    """A baseline that decides devices and an order without congestion; the list scheduler then makes the schedule."""

    def solve(self, problem: MakespanProblem, options: Options, monitor: Monitor) -> Outcome:
        if monitor.stopping:
            return Outcome(None, reason="there was no time")
        instance = build_instance(problem)
        growing = self.grow(instance)
        if isinstance(growing, str):
            return Outcome(None, reason=growing)
        return Outcome(list_schedule(instance, growing.device, growing.order))

    @abstractmethod
    def grow(self, instance: MakespanInstance) -> Growing | str:
        """Everything placed, or why nothing is, in words."""


class Listed(Baseline):
    """A heuristic as a baseline."""

    def __init__(self, heuristic: Heuristic) -> None:
        self.heuristic = heuristic

    @property
    def name(self) -> str:
        return self.heuristic.name

    @property
    def summary(self) -> str:
        return self.heuristic.summary

    def grow(self, instance: MakespanInstance) -> Growing | str:
        return self.heuristic.grow(instance)
