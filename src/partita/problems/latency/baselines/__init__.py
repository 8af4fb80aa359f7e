"""What people do by hand, or with a planner for something else."""

from __future__ import annotations

from partita.problems.latency.baselines.cpu_only import CpuOnly
from partita.problems.latency.baselines.greedy import GreedyFill
from partita.problems.latency.baselines.max_load import MaxLoad
from partita.problems.latency.baselines.single import SingleAccelerator
from partita.problems.latency.protocol import Solver

#: The visible list.
DEFAULT_BASELINES: tuple[Solver, ...] = (CpuOnly(), SingleAccelerator(), GreedyFill(), MaxLoad())
