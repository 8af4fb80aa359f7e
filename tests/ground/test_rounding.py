"""Tolerances and directed rounding: relative to what is compared or summed, in whatever unit."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from partita.ground.rounding import (
    CLOSE,
    GAP,
    OPTIMALITY_GAP,
    SUMMED,
    TOLERANCE,
    UNIT,
    clearly_below,
    just_below,
    leq,
    lowered,
    raised,
    rounded_down,
    rounded_up,
    up_to,
)

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


def test_each_tolerance_leaves_room_for_the_smaller_ones() -> None:
    assert 1e4 * UNIT < SUMMED <= TOLERANCE / 50
    assert TOLERANCE <= GAP / 50
    assert 2 * GAP <= CLOSE <= OPTIMALITY_GAP / 2


@pytest.mark.parametrize("count", [1, 10, 45_000])
def test_what_is_rounded_is_on_its_side_of_every_sum(count: int) -> None:
    draw = random.Random(count)
    numbers = [draw.uniform(0.0, 1.0) * 10.0 ** draw.randint(-6, 6) for _ in range(count)]
    exact = sum(map(Fraction, numbers), Fraction(0))
    for order in (numbers, sorted(numbers), sorted(numbers, reverse=True)):
        found = 0.0
        for number in order:
            found += number
        assert Fraction(rounded_down(found, found, count)) <= exact <= Fraction(rounded_up(found, found, count))
        assert lowered(found) <= rounded_down(found, found, count)
        assert raised(found) >= rounded_up(found, found, count)
        assert lowered(found) < found < raised(found)


@given(st.floats(1e-200, 1e30))
def test_targets_are_as_far_below_as_they_say(value: float) -> None:
    assert clearly_below(value) < just_below(value) < lowered(value) < value
    assert leq(value, just_below(value)), "that is called the same"
    assert raised(clearly_below(value)) < lowered(value), "rounding does not make up for it"
