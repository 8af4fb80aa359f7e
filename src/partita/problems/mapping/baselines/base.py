"""What all baselines of mapping problems do: make an array of devices, where there are enough."""

from __future__ import annotations

from abc import abstractmethod

from partita.engines.kernels.arrays import Ints
from partita.engines.search.monitor import Monitor
from partita.problems.mapping.instance import Instance
from partita.problems.mapping.problem import MappingProblem
from partita.problems.mapping.protocol import Options, Outcome, Solver


class MappingBaseline(Solver):
    """A mapping that is made by ``devices``."""

    @abstractmethod
    def devices(self, instance: Instance, options: Options, monitor: Monitor) -> Ints:
        """The devices of all replicas."""

    def solve(self, problem: MappingProblem, options: Options, monitor: Monitor) -> Outcome:
        instance = Instance(problem)
        missing = problem.shortage()
        if missing is not None:
            return Outcome(None, infeasible=True, reason=missing)
        return Outcome(instance.plan(self.devices(instance, options, monitor)))
