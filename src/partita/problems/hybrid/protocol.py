"""The words of ``partita.problems.kind`` for hybrid problems."""

from __future__ import annotations

from dataclasses import dataclass

from partita.nouns.pipeline import Plan
from partita.problems import kind, outcome
from partita.problems.hybrid.options import HybridOptions as HybridOptions
from partita.problems.hybrid.problem import HybridProblem

Outcome = outcome.Outcome[Plan]
Solver = kind.Solver[HybridProblem, Plan, HybridOptions]


@dataclass(frozen=True)
class Baseline:
    """As ``Solver`` for records, whose fields cannot stand beside its properties."""

    name: str
    summary: str

    @property
    def argument(self) -> str:
        """None: they prove nothing."""
        return ""

    def supports(self, problem: HybridProblem, options: HybridOptions) -> str | None:
        return None
