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
AnswerT = TypeVar("AnswerT")


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


def searched(
    best: Incumbent[AnswerT],
    monitor: Monitor,
    work: Callable[[], object],
    plan: Callable[[AnswerT], CoL] | None = None,
) -> Outcome[CoL]:
    """Run ``work``, which works on ``best``, until it ends or is told to stop, and say what is known then."""
    from partita.engines.search.background import run_in_background

    run_in_background(best, monitor, work)
    return outcome_of(best, plan)


def outcome_of(
    best: Incumbent[AnswerT], plan: Callable[[AnswerT], CoL] | None = None, *, missing: str = ""
) -> Outcome[CoL]:
    """The answer and the bound of one moment; ``missing`` says why there is no answer, where that is not proven.

    ``plan`` makes the plan of an answer; None where answers are plans.
    """
    value, answer, bound = best.snapshot()
    # A bound of 0 says something of a plan that takes no time.
    known = not best.infeasible and (bound > 0 or value == 0)
    found: Any = answer if answer is None or plan is None else plan(answer)
    reason = missing if answer is None and not best.infeasible else ""
    return Outcome(found, bound if known else None, best.infeasible, reason, proven_by=best.proven_by)
