"""What people do by hand, list scheduling heuristics of the literature, and a learned placement."""

from __future__ import annotations

from partita.problems.makespan.baselines.placeto.solver import Placeto
from partita.problems.makespan.heuristics import HEURISTICS
from partita.problems.makespan.options import Solver

#: By hand first, then the heuristics, then what learns.
DEFAULT_BASELINES: tuple[Solver, ...] = (*HEURISTICS, Placeto())
