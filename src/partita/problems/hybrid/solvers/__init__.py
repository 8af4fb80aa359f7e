"""The hybrid solvers there are."""

from __future__ import annotations

from partita.problems.hybrid.solvers.exact import HybridExact
from partita.problems.hybrid.solvers.free import FreeMesh
from partita.problems.hybrid.solvers.protocol import Solver
from partita.problems.hybrid.solvers.uniform import UniformMesh

DEFAULT_HYBRID_SOLVERS: tuple[Solver, ...] = (HybridExact(), UniformMesh(), FreeMesh())
