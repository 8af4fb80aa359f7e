"""Forks: their values in order, and the first failure named whatever it is."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from partita.engines.processes.forks import BEAT_S, DONE, WAITING, Fork, end_all, watch
from partita.ground.errors import InputError, ProcessError, RankError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="about fork")

Start = Callable[..., list[Fork]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def started(*works: Callable[[Any], Any]) -> list[Fork]:
        return [Fork(f"fork {number}", work, tmp_path / str(number)) for number, work in enumerate(works)]

    return started


def ended(forks: Sequence[Fork]) -> bool:
    """Whether all have ended, and are waited for."""
    for fork in forks:
        with pytest.raises(ChildProcessError):
            os.waitpid(fork.pid, os.WNOHANG)
    return all(fork.status is not None for fork in forks)


def value(found: Any, beat: Any) -> Any:
    return found


def refuse(seconds: float, message: str, beat: Any) -> NoReturn:
    time.sleep(seconds)
    raise InputError(message)


def sleep(beat: Any) -> None:
    time.sleep(600)


def work_on(beat: Any) -> None:
    while True:
        beat[0] += 1
        time.sleep(0.01)


def wait(beat: Any) -> None:
    beat[1] = WAITING
    time.sleep(600)


def signalled(number: int, beat: Any) -> None:
    os.kill(os.getpid(), number)
    time.sleep(600)


def deaf(beat: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleep(beat)


def leave_quietly(beat: Any) -> None:
    os._exit(4)


def test_values_come_in_order(start: Start) -> None:
    forks = start(partial(value, "a"), lambda beat: time.sleep(0.2), partial(value, [1.5]))
    assert watch(forks, 60.0) == ["a", None, [1.5]]
    assert ended(forks)


def test_the_first_error_is_named_and_ends_the_others(start: Start) -> None:
    forks = start(partial(refuse, 0.4, "because of it"), partial(refuse, 0.2, "two\nlines"), deaf)
    with pytest.raises(RankError) as caught:
        watch(forks, 60.0, lost=RankError)
    assert str(caught.value) == "fork 1 failed: InputError: two lines"
    assert "in refuse" in "".join(caught.value.__notes__)
    assert ended(forks)
    assert forks[2].status == -signal.SIGKILL


def test_one_that_is_killed_comes_before_errors(start: Start) -> None:
    forks = start(partial(refuse, 0.0, "it is gone"), lambda beat: (time.sleep(0.3), signalled(signal.SIGKILL, beat)))
    with pytest.raises(ProcessError, match=rf"^fork 1 was ended by SIGKILL \(process {forks[1].pid}\)$"):
        watch(forks, 60.0)
    assert ended(forks)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (leave_quietly, "fork 0 ended with status 4 and no word"),
        (lambda beat: os._exit(0), "fork 0 ended with status 0 and no word"),
        (lambda beat: sys.exit(3), "fork 0 failed: SystemExit: 3"),
        (lambda beat: lambda: None, "fork 0 failed: .*pickle"),
    ],
)
def test_an_end_is_no_answer(start: Start, work: Callable[[Any], Any], message: str) -> None:
    forks = start(work)
    with pytest.raises(ProcessError, match=message):
        watch(forks, 60.0)
    assert ended(forks)


def test_one_that_gets_nowhere_hangs(start: Start) -> None:
    forks = start(work_on, sleep)
    with pytest.raises(ProcessError, match=r"^fork 1 hangs: 2 s in one call \(process \d+\); see there$"):
        watch(forks, 2.0, remedy="; see there")
    assert ended(forks)


def test_all_that_wait_hang(start: Start) -> None:
    forks = start(wait, wait)
    with pytest.raises(ProcessError, match=r"^fork 0, fork 1 wait for each other without end$"):
        # Well beyond the time between two signs of life, which may be late.
        watch(forks, 4 * BEAT_S)
    assert ended(forks)


def test_one_that_is_done_does_not_hang(start: Start) -> None:
    def done(beat: Any) -> None:
        beat[1] = DONE
        time.sleep(1.0)

    assert watch(start(done), 0.3) == [None]


def test_silence_is_noticed(start: Start) -> None:
    def silent(beat: Any) -> None:
        # The thread that shows life cannot run: nobody else may hold the interpreter for so long.
        sys.setswitchinterval(1000.0)
        while True:
            beat[0] += 1

    with pytest.raises(ProcessError, match=r"^fork 0 hangs: no sign of life for [12] s"):
        watch(start(silent), 1.0)


def test_one_that_is_stopped_is_named_though_another_waits_longer(start: Start) -> None:
    forks = start(wait, partial(signalled, signal.SIGSTOP))
    with pytest.raises(ProcessError, match=r"^fork 1 hangs: it is stopped by a signal, for [01] s now"):
        watch(forks, 0.5)
    assert ended(forks)


def test_a_stop_has_a_limit_of_its_own(start: Start) -> None:
    forks = start(partial(signalled, signal.SIGSTOP))
    with pytest.raises(ProcessError, match=r"^fork 0 hangs: it is stopped by a signal"):
        watch(forks, float("inf"), 0.3)
    assert ended(forks)


def test_one_that_goes_on_is_fine(start: Start) -> None:
    forks = start(lambda beat: time.sleep(1.0))
    os.kill(forks[0].pid, signal.SIGSTOP)
    time.sleep(0.3)
    forks[0].look()
    assert forks[0].stopped_s > 0
    os.kill(forks[0].pid, signal.SIGCONT)
    assert watch(forks, 60.0, 0.5) == [None]


def test_they_end_with_the_process_that_they_come_from(tmp_path: Path) -> None:
    def parent(beat: Any) -> None:
        beat[0] = Fork("below", sleep, tmp_path / "below").pid
        time.sleep(600)

    fork = Fork("above", parent, tmp_path / "above")
    while not fork.beat[0]:
        time.sleep(0.01)
    below = int(fork.beat[0])
    end_all([fork])
    until = time.monotonic() + 30
    stat = Path(f"/proc/{below}/stat")
    while stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z" and time.monotonic() < until:
        time.sleep(0.02)
    assert time.monotonic() < until
