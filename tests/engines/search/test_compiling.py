"""Compiling stops the clock."""

from __future__ import annotations

import time

import pytest

from partita.engines.search import compiling
from partita.engines.search.monitor import Monitor


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As in a process where nothing was compiled; what people are told."""
    told: list[str] = []
    monkeypatch.setattr(compiling, "tell", told.append)
    for name, value in (("_depth", 0), ("_since", 0.0), ("_total", 0.0), ("_told", False)):
        monkeypatch.setattr(compiling, name, value)
    return told


def test_what_is_spent_compiling_is_not_counted(clean: list[str]) -> None:
    monitor = Monitor(60.0)
    compiling.begin()
    compiling.begin()
    before = monitor.elapsed_s
    time.sleep(0.2)
    compiling.end()
    # One inside another, or beside it, is no more than one.
    time.sleep(0.2)
    assert monitor.elapsed_s == pytest.approx(before, abs=0.02)
    assert monitor.part().remaining_s == pytest.approx(60.0 - before, abs=1e-2)
    compiling.end()
    assert compiling.spent_s() >= 0.4
    passed = monitor.elapsed_s
    time.sleep(0.05)
    assert monitor.elapsed_s >= passed + 0.04
    assert clean == [compiling.note()]


def test_a_clock_does_not_count_back_what_was_compiled_before(clean: list[str]) -> None:
    compiling.begin()
    time.sleep(0.1)
    compiling.end()
    monitor = Monitor(60.0)
    assert 0.0 <= monitor.elapsed_s < 60.0
    assert monitor.remaining_s <= 60.0


def test_kernels_say_when_they_compile(clean: list[str]) -> None:
    import numba

    import partita.engines.kernels.compiled  # noqa: F401 -- listens from now on

    monitor = Monitor(1e-3)
    started = time.perf_counter()

    @numba.njit
    def twice(x: int) -> int:
        return 2 * x

    assert twice(4) == 8
    took = time.perf_counter() - started
    assert 0.0 < compiling.spent_s() <= took
    assert monitor.elapsed_s <= took - compiling.spent_s() + 0.1
    assert clean == [compiling.note()]


def test_a_share_ends_with_the_whole() -> None:
    whole = Monitor(10.0)
    half = whole.share(0.5)
    assert half.time_limit_s == pytest.approx(5.0, abs=0.5)
    assert whole.share(0.5, 1.0).time_limit_s == 1.0
    assert Monitor().share(0.5).time_limit_s is None
    assert Monitor().share(0.5, 3.0).time_limit_s == 3.0
    whole.interrupt()
    assert half.stopping
    assert half.interrupted
