"""The whole model on every device, or on one group of devices that split every layer."""

from __future__ import annotations

from typing import ClassVar

from partita.problems.hybrid.baselines.layouts import Layouts, StageRow, replica_degrees
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.solvers.protocol import Options, Outcome, Solver
from partita.run.monitor import Monitor


class PureDataParallel(Solver):
    """One stage on replicas of one device."""

    name: ClassVar[str] = "pure data parallel"
    summary: ClassVar[str] = "the whole model on every device"

    def solve(self, problem: HybridProblem, options: Options, monitor: Monitor) -> Outcome:
        """The best number of replicas."""
        layouts = Layouts(problem)
        most = min(problem.devices, problem.microbatches)
        rows = ([StageRow(0, len(layouts.order), d, 1)] for d in replica_degrees(problem, most))
        return layouts.best(rows, monitor)


class PureTensorParallel(Solver):
    """One stage without replicas."""

    name: ClassVar[str] = "pure tensor parallel"
    summary: ClassVar[str] = "every layer split over one group of devices"

    def solve(self, problem: HybridProblem, options: Options, monitor: Monitor) -> Outcome:
        """The best degree above 1; without such a degree it does not apply."""
        layouts = Layouts(problem)
        degrees = [t for t in problem.degrees() if t > 1]
        if not degrees:
            return Outcome(None, reason="no layer can be split over several of the devices")
        return layouts.best(([StageRow(0, len(layouts.order), 1, t)] for t in degrees), monitor)
