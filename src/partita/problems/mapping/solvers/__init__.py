"""The solvers of mapping problems."""

from __future__ import annotations

from partita.problems.mapping.protocol import Solver
from partita.problems.mapping.solvers.annealing import MappingAnnealing
from partita.problems.mapping.solvers.combined import Combined
from partita.problems.mapping.solvers.exact import MappingExact

#: The visible list.
DEFAULT_SOLVERS: tuple[Solver, ...] = (Combined(), MappingAnnealing(), MappingExact())
