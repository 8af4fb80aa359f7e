"""Schedules as CP-SAT takes them."""

from __future__ import annotations

import numpy as np
import pytest

from partita.engines.mip.model import Callbacks
from partita.engines.mip.schedule import ScheduleModel, schedule_refusal, solve_schedule
from partita.engines.search.result import Status

pytestmark = pytest.mark.skipif(schedule_refusal() is not None, reason="ortools is not installed")


def model(**changes: object) -> ScheduleModel:
    """Two jobs that feed a third; jobs take 3 or 5, flows 1."""
    time = np.array([[3, 5], [3, 5], [3, -1]], dtype=np.int64)
    fields = {
        "time": time,
        "cost": np.array([[[0, 1], [1, 0]]] * 2, dtype=np.int64),
        "edges": ((0, 2, 0), (1, 2, 1)),
        "groups": (),
        "weight": np.array([1, 1, 1], dtype=np.int64),
        "limit": np.array([-1, -1], dtype=np.int64),
        "serial": (True, True, True),
        "head": np.zeros((3, 2), dtype=np.int64),
        "tail": np.zeros((3, 2), dtype=np.int64),
        "horizon": 100,
    }
    return ScheduleModel(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "best"),
    [
        ({}, 9.0),
        ({"serial": (False, True, True)}, 6.0),
        ({"groups": ((0, 1),)}, 9.0),
        ({"limit": np.array([2, -1])}, 9.0),
        ({"limit": np.array([1, -1]), "serial": (True, True, True)}, 14.0),
        ({"limit": np.array([1, -1]), "serial": (False, True, True)}, 10.0),
        ({"limit": np.array([1, -1]), "serial": (False, False, False)}, 9.0),
        ({"edges": ((0, 2, 0), (1, 2, -1))}, 8.0),
    ],
)
def test_makespans(changes: dict[str, object], best: float) -> None:
    found = solve_schedule(model(**changes), time_limit_s=20.0)
    assert found.status is Status.OPTIMAL
    assert found.objective == found.bound == best


def test_points_start_and_come_back() -> None:
    """A warm start is the first solution, and solutions are reported as they come."""
    seen: list[float] = []
    start = np.array([0, 0, 0, 0, 3, 6, 3, 6, 9], dtype=np.float64)
    calls = Callbacks(on_incumbent=lambda values, value: seen.append(value))
    found = solve_schedule(model(), time_limit_s=20.0, warm_start=start, callbacks=calls)
    assert seen[0] == 9.0
    assert found.values is not None
    assert found.values[-1] == 9.0


@pytest.mark.parametrize("changes", [{"horizon": 8}, {"limit": np.array([0, 0])}, {"time": np.full((3, 2), -1)}])
def test_no_schedule(changes: dict[str, object]) -> None:
    assert solve_schedule(model(**changes), time_limit_s=20.0).status is Status.INFEASIBLE


def test_without_time() -> None:
    assert solve_schedule(model(), time_limit_s=0.0).status is Status.UNKNOWN
