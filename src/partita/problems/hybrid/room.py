"""What a device has room for, as searches count it: the evaluator's limit, and what sums may be off by.

The evaluator accepts what exceeds a limit by a share of ``TOLERANCE``. A claim about all plans must not leave out one
that it accepts, and a search adds up in another order: so claims are made of a little more room than there is. Plans
that need exactly what the evaluator may or may not accept are found again with a little less.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from partita.ground.rounding import TOLERANCE, leq, rounded_down, rounded_up
from partita.nouns.pipeline import Plan
from partita.problems.hybrid.evaluation import HybridEvaluation
from partita.problems.hybrid.problem import HybridProblem

#: Room of a device by its limit (None for none) and the number of layers.
Room = Callable[[float | None, int], float]


def most_room(limit: float | None, layers: int) -> float:
    """What no stage that the evaluator accepts needs more of."""
    return math.inf if limit is None else rounded_up(_accepted(limit), *_summed(limit, layers))


def sure_room(limit: float | None, layers: int) -> float:
    """What the evaluator accepts whichever way it is added up."""
    return math.inf if limit is None else rounded_down(_accepted(limit), *_summed(limit, layers))


def is_tight(problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> bool:
    """Whether the evaluator does not accept a plan only for memory beyond a limit by no more than rounding."""
    over = 0
    for stage, worth in zip(plan.stages, evaluation.stages, strict=True):
        limit = problem.on(stage.kind).memory_bytes
        if limit is not None and not leq(worth.memory_bytes, limit):
            # A search may add up part by part.
            if worth.memory_bytes > most_room(limit, 8 * len(problem.layers) + 8):
                return False
            over += 1
    return 0 < over == len(evaluation.violations)


def _accepted(limit: float) -> float:
    """The most that ``leq`` lets through."""
    return limit / (1.0 - TOLERANCE)


def _summed(limit: float, layers: int) -> tuple[float, int]:
    """Sum of the magnitudes, and numbers that are added up: layers that fit alone, and a few numbers of the stage."""
    terms = layers + 4
    return _accepted(limit) * terms, terms
