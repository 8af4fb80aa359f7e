"""The best answer and the best bound: they never contradict each other, and are never seen half written."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.engines.search.incumbent import Incumbent
from partita.ground.errors import DisagreementError
from partita.ground.rounding import TOLERANCE


def test_better_answers_replace_worse_ones() -> None:
    seen: list[tuple[float, str, str]] = []
    incumbent: Incumbent[str] = Incumbent()
    incumbent.on_better = lambda value, answer, by: seen.append((value, answer, by))
    assert incumbent.offer(3.0, "three", "a search")
    assert not incumbent.offer(3.0, "another three", "another search")
    assert incumbent.offer(2.0, "two", "another search")
    assert incumbent.snapshot() == (2.0, "two", 0.0)
    assert incumbent.found_by == "another search"
    assert seen == [(3.0, "three", "a search"), (2.0, "two", "another search")]


def test_higher_bounds_replace_lower_ones() -> None:
    seen: list[tuple[float, str]] = []
    incumbent: Incumbent[str] = Incumbent()
    incumbent.on_bound = lambda bound, by: seen.append((bound, by))
    assert incumbent.prove(1.0, "a")
    assert not incumbent.prove(0.5, "b")
    assert incumbent.prove(2.0, "b")
    assert (incumbent.bound, incumbent.proven_by) == (2.0, "b")
    assert seen == [(1.0, "a"), (2.0, "b")]


def test_a_bound_above_the_best_value_raises() -> None:
    incumbent: Incumbent[str] = Incumbent()
    incumbent.offer(2.0, "two")
    with pytest.raises(DisagreementError, match=r"a wrong proof claims bound 2\.1 above the known objective 2\.0"):
        incumbent.prove(2.1, "a wrong proof")
    assert incumbent.bound == 0.0
    assert not incumbent.closed


def test_a_value_below_the_best_bound_raises() -> None:
    incumbent: Incumbent[str] = Incumbent()
    incumbent.prove(2.0, "a wrong proof")
    with pytest.raises(DisagreementError, match="a wrong proof claims bound"):
        incumbent.offer(1.9, "less")
    assert incumbent.answer is None


def test_rounding_is_no_contradiction() -> None:
    incumbent: Incumbent[str] = Incumbent()
    incumbent.offer(2.0, "two")
    incumbent.prove(2.0 * (1 + TOLERANCE / 2))
    assert incumbent.bound == 2.0
    assert incumbent.closed


def test_there_is_no_answer_or_there_is_one() -> None:
    refuted: Incumbent[str] = Incumbent()
    refuted.refute("a proof")
    assert refuted.infeasible
    assert refuted.closed
    assert math.isinf(refuted.bound)
    with pytest.raises(DisagreementError):
        refuted.offer(1.0, "one")
    answered: Incumbent[str] = Incumbent()
    answered.offer(1.0, "one")
    with pytest.raises(DisagreementError):
        answered.refute("a proof")
    with pytest.raises(DisagreementError):
        answered.prove(math.inf, "a proof")
    assert not answered.infeasible


@given(
    st.lists(st.tuples(st.sampled_from(["offer", "prove"]), st.floats(0.0, 1e6)), max_size=12),
    st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_the_bound_never_exceeds_the_value(steps: list[tuple[str, float]], scale: float) -> None:
    incumbent: Incumbent[float] = Incumbent()
    for step, number in steps:
        value = number * scale
        before = incumbent.snapshot()
        try:
            if step == "offer":
                incumbent.offer(value, value)
            else:
                incumbent.prove(value)
        except DisagreementError:
            low, high = max(before[2], value), min(before[0], value)
            assert low > high
            assert incumbent.snapshot() == before
        assert incumbent.bound <= incumbent.value
        assert incumbent.value == before[0] or incumbent.answer == incumbent.value


def test_value_and_answer_are_of_one_moment() -> None:
    incumbent: Incumbent[int] = Incumbent()
    torn: list[tuple[float, int | None, float]] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            value, answer, bound = incumbent.snapshot()
            if (answer is None) != math.isinf(value) or (answer is not None and answer != value) or bound > value:
                torn.append((value, answer, bound))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(20_000, 0, -1):
        incumbent.offer(float(number), number)
    done.set()
    reader.join()
    assert not torn


def test_closed_at_the_closeness_asked_for() -> None:
    incumbent: Incumbent[str] = Incumbent(closeness=0.1)
    assert not incumbent.closed
    incumbent.offer(10.0, "ten")
    incumbent.prove(8.9)
    assert not incumbent.done
    incumbent.prove(9.0)
    assert incumbent.done


def test_ending_is_seen_by_everyone() -> None:
    incumbent: Incumbent[str] = Incumbent()
    incumbent.end()
    assert incumbent.stop[0] == 1
    assert incumbent.done
    assert not incumbent.closed


def test_numbers_of_numpy_become_plain_ones() -> None:
    """Files hold no others."""
    best: Incumbent[str] = Incumbent()
    best.offer(np.float64(3.0), "plan")
    best.prove(np.float64(2.0))
    value, _, bound = best.snapshot()
    assert type(value) is float
    assert type(bound) is float
