"""The words of ``partita.problems.kind`` for throughput problems, and searches on an incumbent in these words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from partita.engines.search.background import run_in_background
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.nouns.pipeline import Plan
from partita.problems import kind, outcome
from partita.problems.throughput.options import ThroughputOptions as ThroughputOptions
from partita.problems.throughput.problem import ThroughputProblem

BoundMethod = kind.BoundMethod[ThroughputProblem]
Outcome = outcome.Outcome[Plan]
Solver = kind.Solver[ThroughputProblem, Plan, ThroughputOptions]

AnswerT = TypeVar("AnswerT")


def run_search(
    incumbent: Incumbent[AnswerT], monitor: Monitor, work: Callable[[], None], plan: Callable[[AnswerT], Plan]
) -> Outcome:
    """Run ``work``, which works on ``incumbent``, until it ends or is told to stop; see ``run_in_background``.

    ``plan`` makes the plan of an answer.
    """
    run_in_background(incumbent, monitor, work)
    return outcome_of(incumbent, plan)


def outcome_of(incumbent: Incumbent[AnswerT], plan: Callable[[AnswerT], Plan]) -> Outcome:
    """The answer and the bound of one moment."""
    _, answer, bound = incumbent.snapshot()
    infeasible = incumbent.infeasible
    return Outcome(
        plan=None if answer is None else plan(answer),
        bound=None if infeasible else bound,
        infeasible=infeasible,
        proven_by=incumbent.proven_by,
    )
