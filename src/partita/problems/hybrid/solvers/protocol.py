"""The words of ``partita.problems.kind`` for hybrid problems."""

from __future__ import annotations

from partita.problems import kind, outcome
from partita.problems.hybrid.options import Options as Options
from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.problem import HybridProblem

Outcome = outcome.Outcome[HybridPlan]
Solver = kind.Solver[HybridProblem, HybridPlan, Options]


class AnyProblem:
    """As ``Solver`` for records of a solver: their fields cannot stand beside its properties."""

    @property
    def argument(self) -> str:
        """None: they prove nothing."""
        return ""

    def supports(self, problem: HybridProblem, options: Options) -> str | None:
        return None
