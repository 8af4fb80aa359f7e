"""The words of ``partita.problems.kind`` for mapping problems."""

from __future__ import annotations

from partita.problems import kind
from partita.problems.mapping.options import Options as Options
from partita.problems.mapping.plan import Placement
from partita.problems.mapping.problem import MappingProblem

Outcome = kind.Outcome[Placement]
Solver = kind.Solver[MappingProblem, Placement, Options]
