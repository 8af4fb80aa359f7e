"""What placing a plan compiles."""

from __future__ import annotations

from partita.engines.kernels.mapping.anneal import anneal
from partita.engines.kernels.mapping.placing import covers, depth_first
from partita.engines.search.monitor import Monitor
from partita.problems.kind import Ahead, SearchOptions
from partita.problems.mapping.samples import UNEQUAL
from partita.problems.mapping.solvers import DEFAULT_SOLVERS


def _place() -> None:
    next(solver for solver in DEFAULT_SOLVERS if solver.name == "combined").solve(UNEQUAL, SearchOptions(), Monitor())


AHEAD = (Ahead((covers, depth_first, anneal), _place),)
