"""The words of ``partita.problems.kind`` for latency problems."""

from __future__ import annotations

from partita.problems import kind, outcome
from partita.problems.latency.options import Options as Options
from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.problem import LatencyProblem

Outcome = outcome.Outcome[LatencyPlan]
Solver = kind.Solver[LatencyProblem, LatencyPlan, Options]
