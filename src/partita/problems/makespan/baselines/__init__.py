"""What people do by hand, and list scheduling heuristics of the literature."""

from __future__ import annotations

from partita.problems.makespan.baselines.base import Listed
from partita.problems.makespan.heuristics import HEURISTICS
from partita.problems.makespan.solvers.protocol import Solver

DEFAULT_BASELINES: tuple[Solver, ...] = tuple(Listed(heuristic) for heuristic in HEURISTICS)
