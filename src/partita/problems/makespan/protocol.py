"""The words of ``partita.problems.kind`` for makespan problems, and what a search leaves behind in them."""

from __future__ import annotations

from partita.engines.search.incumbent import Incumbent
from partita.problems import kind, outcome
from partita.problems.makespan.options import Options as Options
from partita.problems.makespan.plan import MakespanPlan
from partita.problems.makespan.problem import MakespanProblem

Outcome = outcome.Outcome[MakespanPlan]
Solver = kind.Solver[MakespanProblem, MakespanPlan, Options]


def outcome_of(best: Incumbent[MakespanPlan]) -> Outcome:
    """The best schedule and bound."""
    value, plan, bound = best.snapshot()
    # A bound of 0 says something of a plan that takes no time.
    known = not best.infeasible and (bound > 0 or value == 0)
    reason = "" if plan is not None or best.infeasible else "it found no schedule that fits into memory"
    return Outcome(plan, bound if known else None, best.infeasible, reason, proven_by=best.proven_by)
