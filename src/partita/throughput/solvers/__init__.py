"""The throughput solvers there are, the default first."""

from __future__ import annotations

from partita.throughput.solvers.dpl import Dpl
from partita.throughput.solvers.exact import Exact
from partita.throughput.solvers.free import Free
from partita.throughput.solvers.free_annealing import Annealing
from partita.throughput.solvers.free_mip import Cpsat, Highs, Scip
from partita.throughput.solvers.orders.annealing import PartitionAnnealing
from partita.throughput.solvers.orders.evolution import Arrangement, Evolution
from partita.throughput.solvers.orders.sampling import RandomOrders
from partita.throughput.solvers.protocol import Solver
from partita.throughput.solvers.slicing import Slicing

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
