"""The tolerance: relative to what is compared, in whatever unit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from partita.units import TOLERANCE, leq, parse_bytes, up_to

#: Sizes from far below a picosecond to far above an exabyte, of both signs, and nothing.
NUMBERS = st.floats(1e-30, 1e30) | st.floats(-1e30, -1e-30) | st.just(0.0)

#: Powers of two: multiplying by them rounds nothing.
UNITS = st.integers(-60, 60).map(lambda exponent: 2.0**exponent)


@given(NUMBERS, NUMBERS)
def test_what_is_at_most_is_at_most(left: float, right: float) -> None:
    assert leq(left, left)
    assert leq(min(left, right), max(left, right))
    assert leq(left, right) or leq(right, left)


@given(NUMBERS, NUMBERS, UNITS)
def test_the_unit_does_not_matter(left: float, right: float, unit: float) -> None:
    assert leq(left * unit, right * unit) == leq(left, right)


@given(NUMBERS, st.floats(-4.0, 4.0))
def test_the_tolerance_is_a_share_of_the_larger(value: float, times: float) -> None:
    """Up to the tolerance above counts, more does not; close to it rounding decides."""
    assume(value != 0.0)
    assume(abs(times - 1.0) > 1e-3)
    assert leq(value + times * TOLERANCE * abs(value), value) == (times < 1.0)


@given(st.floats(5e-324, 1e30))
def test_only_nothing_is_at_most_nothing(value: float) -> None:
    assert leq(0.0, value)
    assert not leq(value, 0.0)
    assert leq(-value, 0.0)
    assert leq(0.0, 0.0)


@given(NUMBERS)
def test_infinity_is_no_number_to_be_close_to(value: float) -> None:
    assert leq(value, math.inf)
    assert not leq(math.inf, value)
    assert leq(-math.inf, value)
    assert not leq(value, -math.inf)
    assert leq(math.inf, math.inf)
    assert not leq(math.nan, value)
    assert not leq(value, math.nan)


@given(st.floats(0.0, 1e30), UNITS)
def test_a_search_fills_what_the_evaluator_lets_through_and_no_more(limit: float, unit: float) -> None:
    """To the last bit: what is between the two would be plans that no search finds, or that nobody accepts."""
    assert limit <= up_to(limit)
    assert leq(up_to(limit), limit)
    assert not leq(math.nextafter(up_to(limit), math.inf), limit)
    assume(limit == 0.0 or limit > 1e-200)
    assert up_to(limit * unit) == up_to(limit) * unit


def test_limits_may_be_an_array() -> None:
    limits = np.array([0.0, 2.5, math.inf])
    assert up_to(limits).tolist() == [up_to(limit) for limit in limits.tolist()]
    assert up_to(0.0) == 0.0
    assert up_to(math.inf) == math.inf
    assert up_to(1.0) == pytest.approx(1.0 + TOLERANCE, abs=1e-15)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("40GB", 40e9),
        ("40 GiB", 40 * 2.0**30),
        ("80e9", 80e9),
        ("1.5mib", 1.5 * 2**20),
        (".5kB", 500.0),
        ("7", 7.0),
        ("7B", 7.0),
        ("2TB", 2e12),
        ("inf", math.inf),
        ("-3GB", -3e9),
    ],
)
def test_bytes_with_and_without_a_unit(text: str, value: float) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize("text", ["", "GB", "40XB", "40GB/s", "4,0GB", "40G", "0x10", "1_000"])
def test_what_is_no_number_of_bytes(text: str) -> None:
    with pytest.raises(ValueError, match="no number of bytes"):
        parse_bytes(text)
