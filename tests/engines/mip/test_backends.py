"""Every backend on tiny programs with known answers."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from engines.mip.programs import hard, spread
from instances.program_points import violation
from partita.engines.mip import child as children
from partita.engines.mip import solve as door
from partita.engines.mip.model import Callbacks, MixedProgram
from partita.engines.mip.solve import BACKENDS, available, solve_program
from partita.engines.processes import kept
from partita.engines.search.result import Status
from partita.ground.errors import InputError, MissingExtraError
from running.soon import SOON_S

WORK = [7.25, 6.5, 5.0, 4.75, 3.5, 3.0, 2.0]
"""Item times that are exact in binary."""


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> str:
    if not available(request.param):
        pytest.skip(f"{BACKENDS[request.param]} is not installed")
    return str(request.param)


def best_spread(work: list[float]) -> float:
    total = sum(work)
    sums = {0.0}
    for w in work:
        sums |= {s + w for s in sums}
    return min(max(s, total - s) for s in sums)


def test_finds_and_proves_the_optimum(backend: str) -> None:
    model, _ = spread(WORK, 2)
    result = solve_program(model, backend, time_limit_s=20)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(best_spread(WORK), rel=1e-6)
    assert result.bound <= best_spread(WORK)
    assert result.bound == pytest.approx(best_spread(WORK), rel=1e-6)
    assert result.values is not None
    assert violation(model, result.values) < 1e-6


def test_values_that_no_integers_hold_keep_the_bound_valid(backend: str) -> None:
    rng = np.random.default_rng(5)
    for _ in range(3):
        work = (rng.random(9) * 10.0 ** rng.integers(-3, 4)).tolist()
        model, _ = spread(work, 2)
        result = solve_program(model, backend, time_limit_s=20)
        assert result.bound <= best_spread(work)
        assert result.bound == pytest.approx(best_spread(work), rel=1e-5)


def test_infeasible_rows(backend: str) -> None:
    model = MixedProgram()
    x = model.add_binary(1.0)
    model.add_row([(x, 1.0)], lower=2.0)
    result = solve_program(model, backend, time_limit_s=10)
    assert result.status is Status.INFEASIBLE
    assert result.values is None
    assert result.bound == math.inf


def test_counts_are_whole_and_may_be_more_than_one(backend: str) -> None:
    """Most of 4·a + 3·b with 2·a + 1.5·b <= 9 + 1/6 and b at most 3: a = 3 and b = 2 take 9."""
    model = MixedProgram()
    a, b = model.add_count(9, -4.0), model.add_count(3, -3.0)
    model.add_row([(a, 2.0), (b, 1.5)], upper=9.0 + 1 / 6)
    result = solve_program(model, backend, time_limit_s=10)
    assert result.status is Status.OPTIMAL
    assert result.values is not None
    assert result.values.round(6).tolist() == [3.0, 2.0]
    assert result.bound == pytest.approx(-18.0, abs=1e-5)


def test_a_warm_start_is_where_it_begins(backend: str) -> None:
    model = hard()
    objectives: list[float] = []
    calls = Callbacks(
        on_incumbent=lambda _, objective: objectives.append(objective),
        stop=lambda: bool(objectives) and objectives[-1] < objectives[0] - 1e-3,
    )
    cold = solve_program(model, backend, time_limit_s=20.0, gap=0.0, callbacks=calls)
    first = objectives[0]
    assert cold.values is not None
    assert cold.objective < first - 1e-3, "the first solution without a start is worse than the last"
    objectives.clear()
    calls = Callbacks(on_incumbent=calls.on_incumbent, stop=lambda: bool(objectives))
    solve_program(model, backend, time_limit_s=20.0, gap=0.0, warm_start=cold.values, callbacks=calls)
    assert objectives[0] <= cold.objective + 1e-6


def test_reports_while_it_runs(backend: str) -> None:
    model = hard()
    objectives: list[float] = []
    bounds: list[float] = []
    calls = Callbacks(
        on_incumbent=lambda _, objective: objectives.append(objective),
        on_bound=bounds.append,
        stop=lambda: bool(objectives and bounds),
    )
    began = time.monotonic()
    result = solve_program(model, backend, time_limit_s=4 * SOON_S, gap=0.0, callbacks=calls)
    assert time.monotonic() - began < SOON_S, "before its end"
    assert objectives == sorted(objectives, reverse=True)
    assert result.objective <= objectives[-1] * (1 + 1e-6)
    assert bounds == sorted(bounds)
    assert bounds[-1] * (1 - 1e-9) <= result.bound <= result.objective


def test_stops_when_told_to(backend: str) -> None:
    model = hard()
    solve_program(spread(WORK, 2)[0], backend)
    began = time.monotonic()
    told: list[float] = []

    def stop() -> bool:
        told.append(time.monotonic() - began)
        return told[-1] > 1.0

    result = solve_program(model, backend, time_limit_s=4 * SOON_S, gap=0.0, callbacks=Callbacks(stop=stop))
    assert 1.0 < time.monotonic() - began < SOON_S
    assert len(told) > 5, "asked often"
    assert result.status in (Status.FEASIBLE, Status.UNKNOWN)
    assert result.bound <= result.objective


def test_a_time_limit_is_kept(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "GRACE_S", SOON_S)
    model = hard()
    solve_program(spread(WORK, 2)[0], backend)
    idle = list(kept.IDLE[backend])
    assert idle, "starting a process is no part of this"
    began = time.monotonic()
    result = solve_program(model, backend, time_limit_s=1.5, gap=0.0)
    assert 1.2 < time.monotonic() - began < SOON_S
    assert result.status in (Status.FEASIBLE, Status.UNKNOWN)
    assert result.bound <= result.objective
    assert kept.IDLE[backend] == idle, "the backend ended by itself; it was not ended"


def test_a_time_limit_counts_from_the_call(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of a process, and what the backend takes to import, are part of it."""
    monkeypatch.setattr(children, "GRACE_S", SOON_S)
    for child in kept.IDLE.pop(backend, []):
        child.end()
    began = time.monotonic()
    solve_program(hard(), backend, time_limit_s=2.5, gap=0.0)
    assert time.monotonic() - began < SOON_S
    assert kept.IDLE[backend], "the backend ended by itself; it was not ended"


def test_unknown_and_missing_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = spread(WORK, 2)
    with pytest.raises(InputError, match="no MIP backend"):
        solve_program(model, "abacus")
    monkeypatch.setattr(door, "available", lambda backend: False)
    with pytest.raises(MissingExtraError, match=r"highspy.*partita\[solvers\]"):
        solve_program(model, "highs")


def test_a_linear_program_without_binaries() -> None:
    if not available("highs"):
        pytest.skip("highspy is not installed")
    model = MixedProgram()
    x, y = model.add_continuous(0.0, 4.0, -1.0), model.add_continuous(0.0, 4.0, -1.0)
    model.add_row([(x, 1.0), (y, 2.0)], upper=6.0)
    result = solve_program(model, "highs")
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(-5.0)
