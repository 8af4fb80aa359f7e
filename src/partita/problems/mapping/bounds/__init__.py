"""The lower bounds of mapping problems."""

from __future__ import annotations

from partita.problems.kind import BoundMethod
from partita.problems.mapping.bounds.columns import Columns
from partita.problems.mapping.bounds.domains import Thresholds
from partita.problems.mapping.bounds.neighbours import Neighbours
from partita.problems.mapping.bounds.rounds import Rounds
from partita.problems.mapping.problem import MappingProblem

#: The visible list, cheapest first.
DEFAULT_BOUNDS: tuple[BoundMethod[MappingProblem], ...] = (Neighbours(), Thresholds(), Rounds(), Columns())
