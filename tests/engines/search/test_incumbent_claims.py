"""What a run believes: better answers and bounds, rounding between the two, and contradictions, which raise."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

from partita.engines.search.incumbent import Incumbent, agreed
from partita.ground.errors import DisagreementError
from partita.ground.rounding import TOLERANCE


class TestAgreed:
    """A bound beside a known value; TOLERANCE is 1e-9, relative."""

    def test_a_bound_below_stays_as_it_is(self) -> None:
        assert agreed(3.0, 4.0, "b") == 3.0
        assert agreed(4.0, 4.0, "b") == 4.0
        assert agreed(3.0, math.inf, "b") == 3.0

    def test_rounding_is_taken_off(self) -> None:
        assert agreed(4.0 * (1 + 0.9e-9), 4.0, "b") == 4.0

    def test_rounding_is_relative_to_the_value(self) -> None:
        assert agreed(4e-9 * (1 + 0.9e-9), 4e-9, "b") == 4e-9
        with pytest.raises(
            DisagreementError, match=r"b claims bound 4.0000000044\d*e-09 above the known objective 4e-09"
        ):
            agreed(4e-9 * (1 + 1.1e-9), 4e-9, "b")
        with pytest.raises(DisagreementError):
            agreed(4e9 * (1 + 1.1e-9), 4e9, "b")

    def test_values_below_zero(self) -> None:
        assert agreed(-4.0 * (1 - 0.9e-9), -4.0, "b") == -4.0
        with pytest.raises(DisagreementError):
            agreed(-4.0 * (1 - 1.1e-9), -4.0, "b")

    def test_exactly_the_tolerance_is_rounding(self) -> None:
        assert agreed(1.0 + TOLERANCE, 1.0, "b") == 1.0

    def test_what_is_no_number_proves_nothing(self) -> None:
        """Its gap would be 0."""
        for value in (4.0, math.inf):
            with pytest.raises(DisagreementError, match="b claims bound nan"):
                agreed(math.nan, value, "b")
        with pytest.raises(DisagreementError):
            Incumbent[str]().prove(math.nan, "b")

    def test_nobody_is_a_proof(self) -> None:
        with pytest.raises(DisagreementError, match=r"^a proof claims bound 5"):
            agreed(5.0, 4.0, "")


class TestStart:
    """Nothing is known."""

    def test_what_is_known_at_first(self) -> None:
        best: Incumbent[str] = Incumbent()
        assert (best.value, best.answer, best.bound) == (math.inf, None, 0.0)
        assert best.snapshot() == (math.inf, None, 0.0)
        assert (best.found_by, best.proven_by, best.counters) == ("", "", {})
        assert not best.infeasible
        assert not best.closed
        assert not best.done
        assert best.stop.tolist() == [0]
        assert best.stop.dtype == "int64", "kernels are compiled for that"


class TestOffer:
    """Better answers are taken, others are not."""

    def test_better_and_worse(self) -> None:
        best: Incumbent[str] = Incumbent()
        told: list[Any] = []
        best.on_better = lambda *event: told.append(event)
        assert best.offer(5.0, "five", "first") is True
        assert best.offer(5.0, "another", "second") is False
        assert best.offer(6.0, "six", "second") is False
        assert best.snapshot() == (5.0, "five", 0.0)
        assert best.found_by == "first"
        assert best.offer(4.0, "four") is True
        assert (best.value, best.answer, best.found_by) == (4.0, "four", "")
        assert told == [(5.0, "five", "first"), (4.0, "four", "")]

    def test_infinite_and_undefined_values_are_not_answers(self) -> None:
        best: Incumbent[str] = Incumbent()
        assert not best.offer(math.inf, "infinite")
        assert not best.offer(math.nan, "undefined")
        assert best.answer is None

    def test_an_answer_under_the_bound_is_a_contradiction(self) -> None:
        best: Incumbent[str] = Incumbent()
        best.prove(3.0, "the proof")
        with pytest.raises(DisagreementError, match=r"the proof claims bound 3\.0 above the known objective 2\.0"):
            best.offer(2.0, "two", "the search")
        assert best.snapshot() == (math.inf, None, 3.0)

    def test_an_answer_a_little_under_the_bound_lowers_it(self) -> None:
        best: Incumbent[str] = Incumbent()
        best.prove(3.0, "b")
        value = 3.0 * (1 - 0.5e-9)
        assert best.offer(value, "x")
        assert best.snapshot() == (value, "x", value)
        assert best.closed

    def test_an_answer_where_there_is_none(self) -> None:
        best: Incumbent[str] = Incumbent()
        best.refute("a proof")
        with pytest.raises(DisagreementError, match=r"^walk has a plan of 2\.0, and there is proven to be none"):
            best.offer(2.0, "two", "walk")
        with pytest.raises(DisagreementError, match=r"^a search has a plan"):
            best.offer(2.0, "two")
        assert best.answer is None


class TestProve:
    """Higher bounds are taken, others are not."""

    def test_higher_and_lower(self) -> None:
        best: Incumbent[str] = Incumbent()
        told: list[Any] = []
        best.on_bound = lambda *event: told.append(event)
        assert best.prove(2.0, "first") is True
        assert best.prove(2.0, "second") is False
        assert best.prove(1.0, "second") is False
        assert (best.bound, best.proven_by) == (2.0, "first")
        assert best.prove(3.0, "third") is True
        assert (best.bound, best.proven_by) == (3.0, "third")
        assert told == [(2.0, "first"), (3.0, "third")]
        assert best.prove(0.0, "zero") is False

    def test_a_bound_above_the_answer_is_a_contradiction(self) -> None:
        best: Incumbent[str] = Incumbent()
        best.offer(4.0, "four")
        with pytest.raises(DisagreementError, match=r"b claims bound 5\.0 above the known objective 4\.0"):
            best.prove(5.0, "b")
        assert best.bound == 0.0
        assert best.proven_by == ""

    def test_a_bound_a_little_above_the_answer_is_the_answer(self) -> None:
        best: Incumbent[str] = Incumbent()
        best.offer(4.0, "four")
        assert best.prove(4.0 * (1 + 0.5e-9), "b")
        assert best.bound == 4.0
        assert not best.prove(4.0 * (1 + 0.5e-9), "b"), "it is known now"

    def test_nothing_is_a_little_above_zero(self) -> None:
        best: Incumbent[str] = Incumbent()
        best.offer(0.0, "x")
        with pytest.raises(DisagreementError):
            best.prove(0.5e-9, "b")


class TestEnd:
    """When nothing is left to do."""

    def test_closed_at_half_the_gap_of_an_optimal_plan(self) -> None:
        """By default 0.5e-6, so that the judge's 1e-6 has room for rounding."""
        best: Incumbent[str] = Incumbent()
        best.offer(1.0, "x")
        best.prove(1.0 - 0.6e-6, "b")
        assert not best.closed
        assert not best.done
        best.prove(1.0 - 0.4e-6, "b")
        assert best.closed
        assert best.done
        assert best.stop.tolist() == [0], "kernels are not told by that"

    def test_closeness_can_be_chosen(self) -> None:
        best: Incumbent[str] = Incumbent(closeness=0.25)
        best.offer(4.0, "x")
        best.prove(2.5, "b")
        assert not best.closed, "(4 - 2.5) / 4 is 0.375"
        best.prove(3.0, "b")
        assert best.closed, "(4 - 3) / 4 is 0.25"

    def test_a_bound_alone_closes_nothing(self) -> None:
        best: Incumbent[str] = Incumbent()
        best.prove(5.0, "b")
        assert not best.closed

    def test_a_zero_answer_is_best(self) -> None:
        best: Incumbent[str] = Incumbent()
        best.offer(0.0, "x")
        assert best.closed

    def test_told_to_stop(self) -> None:
        best: Incumbent[str] = Incumbent()
        best.end()
        assert best.stop.tolist() == [1]
        assert best.done
        assert not best.closed

    def test_refuted(self) -> None:
        best: Incumbent[str] = Incumbent()
        best.refute("a proof")
        assert best.infeasible
        assert best.closed
        assert best.done
        assert best.proven_by == "a proof"

    def test_refuted_beside_an_answer_is_a_contradiction(self) -> None:
        best: Incumbent[str] = Incumbent()
        best.offer(4.0, "four")
        with pytest.raises(DisagreementError, match=r"^b claims that there is no plan, and one has 4\.0"):
            best.refute("b")
        with pytest.raises(DisagreementError, match=r"^a proof claims that there is no plan"):
            best.refute()
        assert not best.infeasible


def test_callbacks_may_use_other_threads() -> None:
    """They run outside the lock: a thread they wait for can read and offer."""
    best: Incumbent[str] = Incumbent()

    def in_another_thread(*_: object) -> None:
        thread = threading.Thread(target=lambda: best.offer(1.0, "one"), daemon=True)
        thread.start()
        thread.join(10.0)
        assert not thread.is_alive()

    best.on_better = lambda value, answer, by: in_another_thread() if value == 2.0 else None
    best.on_bound = in_another_thread
    best.offer(2.0, "two")
    assert best.answer == "one"
    best.prove(0.5, "b")
    assert best.bound == 0.5
