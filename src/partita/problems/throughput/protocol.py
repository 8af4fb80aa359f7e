"""The words of ``partita.problems.kind`` for throughput problems."""

from __future__ import annotations

from partita.nouns.pipeline import Plan
from partita.problems import kind, outcome
from partita.problems.throughput.options import ThroughputOptions as ThroughputOptions
from partita.problems.throughput.problem import ThroughputProblem

BoundMethod = kind.BoundMethod[ThroughputProblem]
Outcome = outcome.Outcome[Plan]
Solver = kind.Solver[ThroughputProblem, Plan, ThroughputOptions]
