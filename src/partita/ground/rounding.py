"""What counts as equal, as proven and as rounding: every tolerance that guards a claim, and how numbers are rounded.

Bounds go down and costs go up by what the sums behind them may be off, and by nothing else. A floating-point sum of n
numbers differs from the true one by at most (n − 1)·2⁻⁵³·Σ|xᵢ| (to first order; Higham, *Accuracy and Stability of
Numerical Algorithms*, §4.2). So the allowance is relative to what was *summed*, not to what is left: where large
numbers cancel, a share of the small difference is not enough. The evaluator sums in another order than a search does,
which is one more such sum; all helpers allow for two. Where nothing cancels and nobody counts the terms, ``lowered``
and ``raised`` allow for tens of thousands of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

NumberT = TypeVar("NumberT", float, "npt.NDArray[np.float64]")

#: The largest relative error of one operation: half a unit in the last place.
UNIT = 2.0**-53

#: What sums may be off by, as a share: those of 45,000 numbers, which is more than a plan's loads have.
SUMMED = 1e-11

#: The same of 4,500 numbers: what searches compare and add up inside.
SUMMED_FEW = 1e-12

#: What divisors that may be 0 are raised to: no time, size or weight is as small.
NOT_ZERO = 1e-300

#: What two values of one quantity may differ by and count as equal, as a share: a hundred times what sums may be off
#: by, so that nothing is refused for rounding, and far less than any measured number is good for.
TOLERANCE = 1e-9

#: Gap of plan and bound at which a part of a run has nothing left to prove: a tenth of ``OPTIMALITY_GAP``, so that
#: what several parts leave open is still within it.
GAP = 1e-7

#: Relative gap up to which a plan is called optimal.
OPTIMALITY_GAP = 1e-6

#: Gap at which a search ends: half of ``OPTIMALITY_GAP``, so that rounding of its bound takes no proof away.
CLOSE = OPTIMALITY_GAP / 2


def allowance(summed: NumberT, terms: int) -> NumberT:
    """The most by which two sums of the same ``terms`` numbers in any order differ, ``summed`` being Σ|xᵢ|."""
    return summed * (2.0 * (terms + 2) * UNIT)


def rounded_down(value: NumberT, summed: NumberT, terms: int) -> NumberT:
    """A number that no exact value behind ``value`` is below: for claims that nothing is cheaper.

    Parameters
    ----------
    value
        What was computed.
    summed
        Sum of the magnitudes of all that was added or subtracted on the way; ``value`` itself if nothing cancels.
    terms
        How many numbers that were.
    """
    return value - allowance(summed, terms)


def rounded_up(value: NumberT, summed: NumberT, terms: int) -> NumberT:
    """A number that no exact value behind ``value`` is above; see ``rounded_down``."""
    return value + allowance(summed, terms)


def lowered(value: NumberT) -> NumberT:
    """``rounded_down`` where nothing cancels and nobody has counted: below what any order of its sum may come to."""
    return value * (1.0 - SUMMED)


def raised(value: NumberT) -> NumberT:
    """``rounded_up``, likewise."""
    return value * (1.0 + SUMMED)


def just_below(value: NumberT) -> NumberT:
    """A target that what is worth ``value`` misses, and that is called the same: what certificates show of bounds."""
    return value * (1.0 - TOLERANCE / 2)


def clearly_below(value: NumberT) -> NumberT:
    """What is at most this (and not negative) is better than ``value``, and not only by rounding."""
    return value * (1.0 - TOLERANCE)


def up_to(limit: NumberT) -> NumberT:
    """What counts as within a limit (or an array of them, not negative; infinite for none).

    That is what ``leq`` lets through, to the last bit: a search that filled less would miss plans that are plans, and
    its proofs would be wrong by them.
    """
    return limit * (1.0 + TOLERANCE)


def leq(left: float, right: float) -> bool:
    """Whether ``left <= right``, or above it by a share of ``TOLERANCE`` of it at most.

    Nothing but 0 counts as 0, and the answer stays when both are multiplied by the same positive number.
    """
    if left <= right or not (math.isfinite(left) and math.isfinite(right)):
        return left <= right
    return left <= (up_to(right) if right >= 0 else clearly_below(right))
