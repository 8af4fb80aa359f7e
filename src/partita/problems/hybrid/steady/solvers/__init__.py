"""The solvers of the time per sample."""

from __future__ import annotations

from partita.problems.hybrid.protocol import Solver
from partita.problems.hybrid.steady.solvers.exact import HybridExact

SOLVERS: tuple[Solver, ...] = (HybridExact(),)
