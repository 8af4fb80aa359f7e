"""What people do today, each an ordinary solver, so that it is judged by the same evaluator."""

from __future__ import annotations

from partita.baselines.equal_layers import EqualLayers
from partita.baselines.equal_parameters import EqualParameters
from partita.baselines.equal_time import EqualTime
from partita.baselines.memory_greedy import MemoryGreedy
from partita.throughput.solvers.protocol import Solver

__all__ = ["DEFAULT_BASELINES"]

DEFAULT_BASELINES: tuple[Solver, ...] = (EqualLayers(), EqualParameters(), EqualTime(), MemoryGreedy())
