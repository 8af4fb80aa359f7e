"""Exact numbers from files, and what counts as equal: floats are fractions, and a part in 10⁹ is rounding."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, TypeVar

#: What plans may be beyond a limit, as a share: that of the evaluators, and what their sums are rounded by.
TOLERANCE = Fraction(1, 10**9) + Fraction(1, 10**12)

Row = TypeVar("Row", bound=tuple[Any, ...])


class FailedCheckError(Exception):
    """Something does not hold; the message says what."""


def exact(value: Any) -> Fraction:
    """A finite number of a file that is not negative, as it stands there; anything else fails the check."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise FailedCheckError(f"{value!r} is not a number from 0 on")
    return Fraction(value)


def total(values: Iterable[Any]) -> Fraction:
    """The exact sum of numbers of a file."""
    return sum((exact(value) for value in values), Fraction(0))


def least(values: Iterable[Fraction | None]) -> Fraction | None:
    """The smallest; None, which stands for infinity, if all are that."""
    return min((value for value in values if value is not None), default=None)


def undominated(rows: Iterable[Row]) -> list[Row]:
    """The rows, in order, that no other one is at most as large as in every place."""
    kept: list[Row] = []
    for row in sorted(set(rows)):
        if not any(all(a <= b for a, b in zip(other, row, strict=True)) for other in kept):
            kept.append(row)
    return kept


def at_most(left: Fraction, right: Fraction) -> bool:
    """Whether ``left`` is not above ``right``, up to rounding."""
    return left <= right or left - right <= TOLERANCE * max(abs(left), abs(right))


def close(left: Fraction, right: Fraction) -> bool:
    """Whether both are the same number, up to rounding."""
    return at_most(left, right) and at_most(right, left)


def down(value: Fraction) -> float:
    """The largest floating-point number that is not above a fraction."""
    found = float(value)
    return found if Fraction(found) <= value else math.nextafter(found, -math.inf)
