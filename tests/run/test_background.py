"""A search in a worker thread: it is watched, ended, and never left running."""

from __future__ import annotations

import threading
import time

import pytest

from partita.run.background import run_in_background
from partita.run.incumbent import Incumbent
from partita.run.monitor import Monitor
from partita.run.result import Event


def searches() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "partita-search"]


def test_reports_what_is_found_and_proven() -> None:
    incumbent: Incumbent[str] = Incumbent()
    monitor = Monitor()

    def work() -> None:
        incumbent.prove(1.0)
        incumbent.offer(2.0, "two")
        incumbent.counters["steps"] = 3

    run_in_background(incumbent, monitor, work)
    assert (monitor.objective, monitor.bound) == (2.0, 1.0)
    assert monitor.statistics.counters == {"steps": 3}
    assert not searches()


def test_ends_at_the_time_limit() -> None:
    incumbent: Incumbent[str] = Incumbent()

    def work() -> None:
        while incumbent.stop[0] == 0:
            time.sleep(0.001)

    monitor = Monitor(0.1)
    run_in_background(incumbent, monitor, work)
    assert 0.1 <= monitor.elapsed_s < 2.0
    assert not searches()


def test_what_the_search_raises_is_raised() -> None:
    def work() -> None:
        raise ZeroDivisionError("a defect")

    with pytest.raises(ZeroDivisionError, match="a defect"):
        run_in_background(Incumbent[str](), Monitor(), work)
    assert not searches()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_a_callback_raises_ends_the_search(error: type[BaseException]) -> None:
    incumbent: Incumbent[str] = Incumbent()

    def progress(_: Event) -> None:
        raise error

    def work() -> None:
        incumbent.offer(1.0, "one")
        while incumbent.stop[0] == 0:
            time.sleep(0.001)

    with pytest.raises(error):
        run_in_background(incumbent, Monitor(progress=progress), work)
    assert incumbent.stop[0] == 1
    assert not searches()


def test_says_nothing_of_bounds_that_say_nothing() -> None:
    incumbent: Incumbent[str] = Incumbent()
    monitor = Monitor()
    run_in_background(incumbent, monitor, incumbent.refute)
    assert monitor.objective is None
    assert monitor.bound is None
    assert monitor.statistics.events == []
