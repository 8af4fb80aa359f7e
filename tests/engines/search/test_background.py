"""The background run: whatever happens, its thread has ended when it is over, and nothing is swallowed."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from partita.engines.search.background import run_in_background
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Event, StopReason
from running.soon import SOON_S

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before, "no thread is left"


class Search:
    """Finds answers 9, 8, 7, … 1 and proves 1, slowly, until told to stop."""

    def __init__(self, steps: int = 9, step_s: float = 0.05) -> None:
        self.incumbent: Incumbent[str] = Incumbent()
        self.steps = steps
        self.step_s = step_s
        self.ended = False

    def work(self) -> None:
        self.incumbent.prove(1.0, "proof")
        for value in range(9, 9 - self.steps, -1):
            if self.incumbent.done:
                break
            self.incumbent.offer(float(value), f"answer {value}")
            self.incumbent.counters["answers"] = 10.0 - value
            time.sleep(self.step_s)
        while not self.incumbent.done:
            time.sleep(0.01)
        self.ended = True


def test_it_reports_and_counts_until_nothing_is_left() -> None:
    search, monitor = Search(), Monitor()
    run_in_background(search.incumbent, monitor, search.work)
    assert search.ended
    assert (monitor.objective, monitor.bound) == (1.0, 1.0)
    objectives = [event.objective for event in monitor.statistics.events]
    assert len(set(objectives)) > 3, "while it runs"
    assert monitor.statistics.counters == {"answers": 9.0}
    assert search.incumbent.snapshot()[1] == "answer 1"


def test_it_ends_with_its_time() -> None:
    search, monitor = Search(steps=2), Monitor(0.3)
    began = time.monotonic()
    run_in_background(search.incumbent, monitor, search.work)
    assert 0.29 < time.monotonic() - began < SOON_S
    assert search.ended
    assert monitor.stop_reason() is StopReason.TIME_LIMIT


def test_what_the_search_raises_is_raised() -> None:
    search = Search()

    def work() -> None:
        search.incumbent.offer(5.0, "answer")
        raise ArithmeticError("in the search")

    with pytest.raises(ArithmeticError, match="in the search"):
        run_in_background(search.incumbent, Monitor(), work)


@pytest.mark.parametrize("at", [9.0, 7.0, 5.0])
def test_what_the_progress_callback_raises_is_raised_after_the_search_has_ended(at: float) -> None:
    def progress(event: Event) -> None:
        if event.objective is not None and event.objective <= at:
            raise KeyError("in the callback")

    search = Search(steps=8)
    began = time.monotonic()
    with pytest.raises(KeyError, match="in the callback"):
        run_in_background(search.incumbent, Monitor(4 * SOON_S, progress), search.work)
    assert search.ended
    assert time.monotonic() - began < SOON_S


def test_an_interrupted_part_stops_the_whole_run() -> None:
    from partita.engines.search.interrupt import interruptible

    whole, before = Monitor(), signal.getsignal(signal.SIGINT)
    with interruptible(whole.part(60.0).part()):
        signal.raise_signal(signal.SIGINT)
        assert whole.interrupted
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_background_process_stops_too(number: signal.Signals) -> None:
    """Shells start background processes with an ignored Ctrl-C."""
    from partita.engines.search.interrupt import interruptible

    before = signal.signal(number, signal.SIG_IGN)
    run = Monitor()
    try:
        with interruptible(run):
            signal.raise_signal(number)
        assert run.interrupted
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_other_handlers_are_put_back() -> None:
    from partita.engines.search.interrupt import interruptible

    def other(number: int, frame: object) -> None: ...

    before = signal.signal(signal.SIGINT, other)
    try:
        with pytest.raises(ValueError, match="x"), interruptible(Monitor()):
            raise ValueError("x")
        assert signal.getsignal(signal.SIGINT) is other
    finally:
        signal.signal(signal.SIGINT, before)


INTERRUPTED = """
import sys, threading, time
from partita.engines.search.background import run_in_background
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.interrupt import interruptible
from partita.engines.search.monitor import Monitor

best = Incumbent()

def work():
    best.offer(5.0, "answer")
    print("runs", flush=True)
    while not best.stop[0]:
        time.sleep(0.01)
    print("told", flush=True)
    time.sleep({slow})
    print("ended", flush=True)

monitor = Monitor()
try:
    with interruptible(monitor):
        run_in_background(best, monitor, work)
except KeyboardInterrupt:
    print("interrupted", threading.active_count(), flush=True)
else:
    print("answered", best.value, monitor.interrupted, threading.active_count(), flush=True)
"""


def interrupted(slow: float, times: int) -> tuple[list[str], float]:
    """What the search above prints when Ctrl-C comes so many times, and its seconds after the first one."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", INTERRUPTED.format(slow=slow)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    lines = [process.stdout.readline().strip()]
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    lines.append(process.stdout.readline().strip())
    for _ in range(times - 1):
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=SOON_S)
    assert process.returncode == 0
    return lines + rest.split("\n")[:-1], time.monotonic() - began


@pytest.mark.skipif(os.name != "posix", reason="sends signals as POSIX has them")
def test_one_interrupt_answers_with_the_best() -> None:
    lines, _ = interrupted(slow=1.0, times=1)
    assert lines == ["runs", "told", "ended", "answered 5.0 True 1"]


@pytest.mark.skipif(os.name != "posix", reason="sends signals as POSIX has them")
def test_a_second_interrupt_is_an_error_once_the_search_has_ended() -> None:
    lines, _ = interrupted(slow=1.5, times=2)
    assert lines == ["runs", "told", "ended", "interrupted 1"]


@pytest.mark.skipif(os.name != "posix", reason="sends signals as POSIX has them")
def test_a_third_interrupt_does_not_wait_for_a_search_that_does_not_end() -> None:
    lines, seconds = interrupted(slow=4 * SOON_S, times=3)
    assert lines == ["runs", "told", "interrupted 2"]
    assert seconds < SOON_S


def test_nothing_found_is_reported_as_nothing() -> None:
    events: list[Event] = []
    best: Incumbent[str] = Incumbent()
    run_in_background(best, Monitor(progress=events.append), lambda: None)
    assert events == []
    assert math.isinf(best.value)
