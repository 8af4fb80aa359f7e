"""Problems from elsewhere have their own settings in every public function, though no signature names them."""

from __future__ import annotations

from typing import Any

import pytest

import partita as pt
from toy.registered import registered
from toy.tasks import TASKS, TaskProblem

PROBLEM = TaskProblem(name="uneven", machines=2, times=(4.0, 4.0, 2.0, 1.0, 1.0))


def test_own_settings_are_taken_where_they_are_known() -> None:
    own: dict[str, Any] = {"assignment": "consecutive"}
    with registered(TASKS):
        free = pt.solve(PROBLEM)
        held = pt.solve(PROBLEM, **own)
        assert free.objective == 6.0
        assert held.objective is not None
        assert free.objective <= held.objective
        assert pt.solve(PROBLEM, machines=3).objective == 4.0
        assert [row["objective"] for row in pt.sweep(PROBLEM, machines=(2, 3)).rows] == [6.0, 4.0]
        assert pt.compare(PROBLEM, **own).answer.objective == held.objective
        with pytest.raises(pt.InputError, match="no option 'assignement'"):
            pt.solve(PROBLEM, assignement="any")


def test_settings_of_several_values_take_any_sequence() -> None:
    with registered(TASKS):
        rows = pt.sweep(PROBLEM, machines=range(2, 5)).rows
    assert [row["machines"] for row in rows] == [2, 3, 4]
