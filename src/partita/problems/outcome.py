"""What solvers hand back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from partita.engines.search.monitor import Monitor

if TYPE_CHECKING:
    from partita.engines.search.incumbent import Incumbent

CoL = TypeVar("CoL", covariant=True)


@dataclass(frozen=True)
class Outcome(Generic[CoL]):
    """What a solver hands back, before it is evaluated."""

    plan: CoL | None  #: The best plan, complete or partial (see ``Kind.complete``); None if there is none.
    bound: float | None = None  #: A proven lower bound; None if there is none.
    infeasible: bool = False  #: True when it is proven that there is no plan.
    reason: str = ""  #: Why there is no plan, where that is not proven: what does not apply, or what is missing.
    #: The plans that ``bound`` and ``infeasible`` hold for, in the words of the problem; None for those asked for.
    scope: str | None = None
    #: False if the answer comes from a reduction that may lose plans: what was proven about that holds for it alone, so
    #: that it can never become a proof for the problem.
    lossless: bool = True
    #: Name of the method that proved the bound, where the solver has several; empty for the solver itself.
    proven_by: str = ""
    #: Of the bound, see ``partita.engines.search.result.Bound``; None for none.
    certificate: msgspec.Struct | None = None


def searched(best: Incumbent[Any], monitor: Monitor, work: Callable[[], object]) -> Outcome[Any]:
    """Run ``work``, which works on ``best``, until it ends or is told to stop, and say what is known then."""
    from partita.engines.search.background import run_in_background

    run_in_background(best, monitor, work)
    _, plan, bound = best.snapshot()
    return Outcome(plan, None if best.infeasible else bound, best.infeasible, proven_by=best.proven_by)
