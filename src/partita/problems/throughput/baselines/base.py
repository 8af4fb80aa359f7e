"""The common parts of the baselines: what they support, and one cut of the layers without search."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from partita.problems.throughput.baselines.layers import Layers, accelerator_devices, find_layers, plan_from_labels
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome, Solver
from partita.run.monitor import Monitor


class FreeSplits(Solver):
    """Knows nothing of contiguity."""

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        if options.contiguity != "free":
            return f"{self.name} gives free splits only; ask for them with --contiguity free"
        return None


class LayerBaseline(Solver, ABC):
    """A split that only chooses where to cut the row of layers. It proves nothing, and may not fit in memory."""

    def row(self, problem: ThroughputProblem) -> Layers:
        """The layers to cut."""
        return find_layers(problem)

    @abstractmethod
    def cuts(self, problem: ThroughputProblem, layers: Layers, devices: int) -> list[int]:
        """First layer of every device after the first, ascending."""

    def solve(self, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
        layers, devices = self.row(problem), len(accelerator_devices(problem))
        cuts = np.array(self.cuts(problem, layers, devices)[: devices - 1], dtype=np.int64)
        run = np.searchsorted(cuts, layers.layer_of, side="right")
        return Outcome(plan=plan_from_labels(problem, layers.instance, run))
