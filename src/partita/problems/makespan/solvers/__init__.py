"""Ways to make schedules."""

from __future__ import annotations

from partita.problems.makespan.options import Solver
from partita.problems.makespan.solvers.annealing import FusedFirst, MakespanAnnealing
from partita.problems.makespan.solvers.exact import MakespanExact
from partita.problems.makespan.solvers.program import MakespanProgram

DEFAULT_MAKESPAN_SOLVERS: tuple[Solver, ...] = (MakespanExact(), MakespanProgram(), MakespanAnnealing(), FusedFirst())
