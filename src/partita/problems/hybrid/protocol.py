"""The words of ``partita.problems.kind`` for hybrid problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from partita.engines.search.background import run_in_background
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
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


def run_search(best: Incumbent[Plan], monitor: Monitor, work: Callable[[], None]) -> Outcome:
    """Run ``work``, which works on ``best``, until it ends or is told to stop, and say what is known then."""
    run_in_background(best, monitor, work)
    value, plan, bound = best.snapshot()
    # A bound of 0 says something of a plan that takes no time.
    known = not best.infeasible and (bound > 0 or value == 0)
    return Outcome(plan, bound if known else None, best.infeasible, proven_by=best.proven_by)
