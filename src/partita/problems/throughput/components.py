"""The solvers and the bounds there are: the visible lists of the throughput problem."""

from __future__ import annotations

from partita.problems.throughput.bounds.capacity import CapacityBound
from partita.problems.throughput.bounds.hierarchy import HIERARCHY
from partita.problems.throughput.bounds.node import FreeNodeBound
from partita.problems.throughput.bounds.programs.superblocks import BottleneckBound, GuessBound
from partita.problems.throughput.bounds.streaming import STREAMING
from partita.problems.throughput.free.bound import FreeCoveringBound
from partita.problems.throughput.free.search import FreeAnnealing
from partita.problems.throughput.free.solver import BACKENDS, Free
from partita.problems.throughput.orders.genetic import Arrangement, Evolution
from partita.problems.throughput.orders.order_run import RandomOrders
from partita.problems.throughput.orders.partition_search import PartitionAnnealing
from partita.problems.throughput.protocol import BoundMethod, Solver
from partita.problems.throughput.solvers.chain import ChainCuts
from partita.problems.throughput.solvers.dpl import Dpl
from partita.problems.throughput.solvers.exact import DownsetsBound, Exact, Slicing

SOLVERS: tuple[Solver, ...] = (
    Exact(),
    Slicing(),
    Dpl(),
    ChainCuts(),
    PartitionAnnealing(),
    RandomOrders(),
    Evolution(),
    Arrangement(),
    Free(Slicing()),
    FreeAnnealing(),
    *BACKENDS,
)

#: Cheapest first. Those that others of the hierarchy prove more than in less time are there to be asked for.
BOUNDS: tuple[BoundMethod, ...] = (
    CapacityBound(),
    *HIERARCHY,
    BottleneckBound(),
    GuessBound(),
    STREAMING,
    FreeNodeBound(),
    FreeCoveringBound(),
    DownsetsBound(),
)
