"""What a run leaves behind, as a solver hands it back."""

from __future__ import annotations

from partita.engines.search.incumbent import Incumbent
from partita.problems.makespan.plan import Schedule
from partita.problems.makespan.solvers.protocol import Outcome


def outcome_of(best: Incumbent[Schedule]) -> Outcome:
    """The best schedule and bound."""
    value, plan, bound = best.snapshot()
    # A bound of 0 says something of a plan that takes no time.
    known = not best.infeasible and (bound > 0 or value == 0)
    reason = "" if plan is not None or best.infeasible else "it found no schedule that fits into memory"
    return Outcome(
        plan=plan,
        bound=bound if known else None,
        infeasible=best.infeasible,
        reason=reason,
        proven_by=best.proven_by,
    )
