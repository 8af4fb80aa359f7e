"""Lower bounds, cheapest first; CP-SAT's and the exact solver's own are asked for by the solvers' names."""

from __future__ import annotations

from partita.problems.kind import BoundMethod
from partita.problems.makespan.bounds.cases import Cases
from partita.problems.makespan.bounds.chain import Separators
from partita.problems.makespan.bounds.energetic import Energetic
from partita.problems.makespan.bounds.multipliers import Multipliers
from partita.problems.makespan.bounds.simple import DividedWork, LongestChain
from partita.problems.makespan.problem import MakespanProblem

DEFAULT_BOUNDS: tuple[BoundMethod[MakespanProblem], ...] = (
    LongestChain(),
    DividedWork(),
    Multipliers(),
    Energetic(),
    Cases(),
    Separators(),
)
