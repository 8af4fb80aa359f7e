"""The common part of the baselines: one cut of the layers, no search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from partita.problems.throughput.baselines.layers import Layers, find_layers, plan_from_cuts
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome
from partita.run.monitor import Monitor

__all__ = ["LayerBaseline"]


class LayerBaseline(ABC):
    """A split that only chooses where to cut the row of layers. It proves nothing, and may not fit in memory."""

    name: ClassVar[str]
    summary: ClassVar[str]

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        """Baselines work on every problem; a contiguous answer is a valid free one too."""
        return None

    @abstractmethod
    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        """First layer of every device after the first, ascending."""

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        """Cut once."""
        layers = find_layers(problem)
        devices = sum(kind.count for kind in problem.kinds if kind.accelerator) or problem.device_count
        return Outcome(plan=plan_from_cuts(problem, layers, self.cuts(problem, layers, devices)[: devices - 1]))
