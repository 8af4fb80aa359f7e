"""The solvers of latency problems."""

from __future__ import annotations

from partita.problems.latency.protocol import Solver
from partita.problems.latency.solvers.annealing import LatencyAnnealing
from partita.problems.latency.solvers.combined import Combined
from partita.problems.latency.solvers.exact import LatencyProgram

#: The visible list.
DEFAULT_SOLVERS: tuple[Solver, ...] = (Combined(), LatencyAnnealing(), LatencyProgram())
