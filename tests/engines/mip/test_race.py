"""Several backends at once: who is done ends the others, and who crashes does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from partita.engines.mip.race import race
from partita.ground.errors import SolverCrashError


def waits(ended: Callable[[], bool]) -> bool:
    """Whether it is asked to end."""
    for _ in range(5_000):
        if ended():
            return True
        time.sleep(0.001)
    return False


def test_one_that_is_done_ends_the_others() -> None:
    began = threading.Event()

    def run(backend: str, ended: Callable[[], bool]) -> str:
        if backend == "slow":
            began.set()
            return "stopped" if waits(ended) else "late"
        assert began.wait(60)
        return "done"

    for order in (("slow", "quick"), ("quick", "slow")):
        began.clear()
        found = race(order, run, lambda answer: answer == "done")
        assert dict(zip(order, found, strict=True)) == {"slow": "stopped", "quick": "done"}


def test_one_that_crashes_leaves_the_others_running() -> None:
    def run(backend: str, ended: Callable[[], bool]) -> bool:
        if backend.startswith("bad"):
            raise SolverCrashError(backend, "it fell")
        return not ended()

    for order in (("bad", "good"), ("good", "bad")):
        crash = race(order, run, bool)[order.index("bad")]
        assert isinstance(crash, SolverCrashError)
        assert race(order, run, bool)[order.index("good")] is True
    assert race(("good",), run, bool) == [True]
    for alone in (("bad",), ("bad", "bad too")):
        with pytest.raises(SolverCrashError, match="bad"):
            race(alone, run, bool)


def test_what_else_is_raised_ends_all() -> None:
    def run(backend: str, ended: Callable[[], bool]) -> bool:
        if backend == "raises":
            raise ValueError("stop")
        return not waits(ended)

    for order in (("raises", "waits"), ("waits", "raises")):
        with pytest.raises(ValueError, match="stop"):
            race(order, run, bool)
