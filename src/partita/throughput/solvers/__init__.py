"""The throughput solvers there are, the default first."""

from __future__ import annotations

from partita.throughput.solvers.dpl import Dpl
from partita.throughput.solvers.exact import Exact
from partita.throughput.solvers.protocol import Solver
from partita.throughput.solvers.slicing import Slicing

__all__ = ["DEFAULT_SOLVERS"]

DEFAULT_SOLVERS: tuple[Solver, ...] = (Exact(), Slicing(), Dpl())
