"""The words of ``partita.problems.kind`` for mapping problems."""

from __future__ import annotations

from partita.problems import kind, outcome
from partita.problems.mapping.options import Options as Options
from partita.problems.mapping.plan import Placement
from partita.problems.mapping.problem import MappingProblem

Outcome = outcome.Outcome[Placement]
Solver = kind.Solver[MappingProblem, Placement, Options]
