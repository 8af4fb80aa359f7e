"""The throughput solvers there are, the default first."""

from __future__ import annotations

from partita.problems.throughput.free.annealing import Annealing
from partita.problems.throughput.free.mip import Cpsat, Highs, Scip
from partita.problems.throughput.free.solver import Free
from partita.problems.throughput.orders.annealing import PartitionAnnealing
from partita.problems.throughput.orders.evolution import Arrangement, Evolution
from partita.problems.throughput.orders.sampling import RandomOrders
from partita.problems.throughput.solvers.dpl import Dpl
from partita.problems.throughput.solvers.exact import Exact
from partita.problems.throughput.solvers.protocol import Solver
from partita.problems.throughput.solvers.slicing import Slicing

__all__ = ["DEFAULT_FOR", "DEFAULT_SOLVERS"]

DEFAULT_SOLVERS: tuple[Solver, ...] = (
    Exact(),
    Slicing(),
    Dpl(),
    PartitionAnnealing(),
    RandomOrders(),
    Evolution(),
    Arrangement(),
    Free(),
    Annealing(),
    Highs(),
    Cpsat(),
    Scip(),
)

#: The solver that is used for a contiguity when none is named.
DEFAULT_FOR: dict[str, str] = {"acyclic": "exact", "free": "free"}
