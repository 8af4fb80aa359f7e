"""What people do by hand, list scheduling heuristics of the literature, and a learned placement."""

from __future__ import annotations

from partita.problems.makespan.baselines.base import Listed
from partita.problems.makespan.baselines.placeto.solver import Placeto
from partita.problems.makespan.heuristics import HEURISTICS
from partita.problems.makespan.solvers.protocol import Solver

#: By hand first, then the heuristics, then what learns.
DEFAULT_BASELINES: tuple[Solver, ...] = (*(Listed(heuristic) for heuristic in HEURISTICS), Placeto())
