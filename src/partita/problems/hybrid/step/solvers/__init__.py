"""The solvers of a step."""

from __future__ import annotations

from partita.problems.hybrid.protocol import Solver
from partita.problems.hybrid.step.solvers.free import FreeMesh
from partita.problems.hybrid.step.solvers.uniform import UniformMesh

SOLVERS: tuple[Solver, ...] = (UniformMesh(), FreeMesh())
