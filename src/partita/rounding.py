"""Directed rounding: bounds go down and costs go up by what the sums behind them may be off, and by nothing else.

A floating-point sum of n numbers differs from the true one by at most (n − 1)·2⁻⁵³·Σ|xᵢ| (to first order; Higham,
*Accuracy and Stability of Numerical Algorithms*, §4.2). So the allowance is relative to what was *summed*, not to what
is left: where large numbers cancel, a share of the small difference is not enough. The evaluator sums in another order
than a search does, which is one more such sum; both helpers allow for two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

NumberT = TypeVar("NumberT", float, "npt.NDArray[np.float64]")

#: The largest relative error of one operation: half a unit in the last place.
UNIT = 2.0**-53


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
