"""A bound is the number it is, and keeps what is known of it."""

from __future__ import annotations

import copy
import json
import math
import operator
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.engines.search.result import Bound, relative_gap

numbers = st.floats(allow_nan=False) | st.integers(-2, 2)
bounds = st.builds(
    Bound,
    st.sampled_from([0.0, 1.0, 2.0]) | st.floats(allow_nan=False),
    st.sampled_from(["charge", "windows"]),
    scope=st.sampled_from(["", "acyclic"]),
    runtime_s=st.sampled_from([0.0, 0.5]),
    argument=st.sampled_from(["", "Every path takes its time."]),
)


class Weights(msgspec.Struct, frozen=True):
    """A certificate that is long."""

    weights: tuple[float, ...] = (0.5,) * 10_000


@given(bounds, numbers)
def test_it_compares_as_its_value(bound: Bound, other: float) -> None:
    for compare in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        assert compare(bound, other) == compare(bound.value, other)
        assert compare(other, bound) == compare(other, bound.value)
    assert hash(bound) == hash(bound.value)
    assert bool(bound) == bool(bound.value)
    assert min(bound, other) == min(bound.value, other)


@pytest.mark.parametrize("compute", [operator.add, operator.sub, operator.mul, operator.truediv])
@given(bound=bounds, other=numbers)
def test_it_computes_as_its_value(compute: Callable[[Any, Any], Any], bound: Bound, other: float) -> None:
    for first, second, plain in (
        (bound, other, (bound.value, other)),
        (other, bound, (other, bound.value)),
        (bound, bound, (bound.value, bound.value)),
    ):
        if compute is operator.truediv and second == 0:
            with pytest.raises(ZeroDivisionError):
                compute(first, second)
            continue
        expected = compute(*plain)
        found = compute(first, second)
        assert type(found) is float
        assert found == expected or (math.isnan(found) and math.isnan(expected))


@given(bounds, bounds)
def test_bounds_are_equal_if_all_that_is_known_is(first: Bound, second: Bound) -> None:
    same = asdict(first) == asdict(second)
    assert (first == second) == same
    assert (first != second) == (not same)
    assert not same or hash(first) == hash(second)
    assert (first < second) == (first.value < second.value)


@given(bounds)
def test_copies_keep_everything(bound: Bound) -> None:
    for made in (replace(bound), copy.copy(bound), copy.deepcopy(bound), pickle.loads(pickle.dumps(bound))):
        assert made == bound
        assert float(made) == made.value == bound.value
        assert made.argument == bound.argument


@given(bounds, st.floats(allow_nan=False))
def test_a_replaced_value_is_the_number(bound: Bound, value: float) -> None:
    changed = replace(bound, value=value)
    assert float(changed) == changed.value == value
    assert changed.method == bound.method
    with pytest.raises(FrozenInstanceError):
        changed.value = 0.0  # type: ignore[misc]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_it_is_written_as_the_number(value: float) -> None:
    bound = Bound(value, "charge")
    assert json.loads(json.dumps({"bound": bound})) == {"bound": value}
    assert str(bound) == f"{bound}" == repr(value)
    assert f"{bound:.3g}" == f"{value:.3g}"


def test_arrays_and_functions_of_numbers_take_it() -> None:
    bound = Bound(2.0, "charge")
    assert np.asarray([bound, 3.0]).dtype == float
    assert math.isclose(bound, 2.0)
    assert math.sqrt(bound * 2) == 2.0
    assert relative_gap(4.0, bound) == 0.5
    assert sorted([Bound(3.0, "windows"), bound])[0] is bound
    assert isinstance(bound, float)


def test_its_text_leaves_certificates_out() -> None:
    bound = Bound(2.0, "charge", "acyclic", certificate=Weights())
    assert repr(bound) == "Bound(value=2.0, method='charge', scope='acyclic', runtime_s=0.0, certificate=Weights(…))"
    assert repr(Bound(2.0, "charge", argument="By weight.")).endswith("argument='By weight.')")


def test_a_change_leaves_a_certificate_to_be_made() -> None:
    made: list[int] = []

    def make() -> Weights:
        made.append(1)
        return Weights()

    bound = Bound(2.0, "charge", "acyclic", certificate=make)  # type: ignore[arg-type]
    other = bound.changed(value=1.5, argument="By weight.")
    assert (other, other.value, other.method, other.scope, other.argument) == (
        1.5,
        1.5,
        "charge",
        "acyclic",
        "By weight.",
    )
    assert not made
    assert isinstance(other.certificate, Weights)
    assert other.certificate is other.certificate
    assert made == [1]
    assert bound.changed(certificate=None).certificate is None


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(TypeError):
        Bound(None, "charge")  # type: ignore[arg-type]
