"""Checks of numbers, each refusing by an ``InputError`` with the owner, the field and the value."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from partita.ground.errors import InputError


def _number(value: object) -> float:
    """The value; what is no number is none that any check lets pass."""
    # Most are of these two types, and there are millions.
    return value if type(value) in (float, int) or isinstance(value, Real) else math.nan  # type: ignore[return-value]


def check_number(owner: str, field: str, value: float) -> None:
    """Refuse a number that is negative or not finite."""
    if not 0 <= _number(value) < math.inf:
        raise InputError(f"{owner}: {field} is {value}; it must be finite and not negative")


def check_fields(owner: str, value: Any, *fields: str) -> None:
    """Refuse a value if one of these fields is negative or not finite; None is no number and passes."""
    for field in fields:
        number = getattr(value, field)
        if number is not None:
            check_number(owner, field, number)


def check_positive(owner: str, field: str, value: float) -> None:
    """Refuse a number that is not finite and above 0."""
    if not 0 < _number(value) < math.inf:
        raise InputError(f"{owner}: {field} is {value}; it must be finite and positive")


def check_fraction(owner: str, field: str, value: float) -> None:
    """Refuse a number that is no share: above 0 and at most 1."""
    if not 0 < _number(value) <= 1:
        raise InputError(f"{owner}: {field} is {value}; it must be above 0 and at most 1")


def check_at_least(what: str, value: int, least: int = 1) -> None:
    """Refuse a count below the least one; ``what`` names it and its owner."""
    if not _number(value) >= least:
        raise InputError(f"{what} is {value}; it must be at least {least}")


def check_scale(factor: float, *, zero: bool = True) -> None:
    """Refuse a factor of all transfers that is not finite, is negative, or is 0 where a problem needs transfers."""
    if not 0 <= _number(factor) < math.inf or not (zero or factor):
        raise InputError(
            f"the communication scale is {factor}; it must be finite and {'not negative' if zero else 'positive'}"
        )
