"""The words of ``partita.problems.kind`` for makespan problems."""

from __future__ import annotations

from partita.problems import kind, outcome
from partita.problems.makespan.options import Options as Options
from partita.problems.makespan.plan import Schedule
from partita.problems.makespan.problem import MakespanProblem

Outcome = outcome.Outcome[Schedule]
Solver = kind.Solver[MakespanProblem, Schedule, Options]
