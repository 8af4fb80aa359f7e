"""Child processes that are asked: their answers, errors and ends, whatever befalls them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from partita.engines.processes import kept
from partita.engines.processes.child import Child
from partita.engines.processes.kept import MOST_IDLE, kept_child
from partita.engines.processes.replies import Reply, WorkerTraceback
from partita.ground.errors import InputError, ProcessError
from running.soon import SOON_S
from toy.tasks import TASKS

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at processes as Linux shows them")

MODULE = "engines.processes.served"


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Starts children, all of which end with the test, and their threads with them."""
    before, made = set(threading.enumerate()), []

    def started(**more: Any) -> Child:
        made.append(Child(MODULE, ProcessError, **more))
        return made[-1]

    yield started
    for child in made:
        child.end()
        assert child.process.returncode is not None
    assert set(threading.enumerate()) <= before


def heard(child: Child) -> Any:
    """The next that it says."""
    until = time.monotonic() + SOON_S
    while time.monotonic() < until:
        if (found := child.hear(0.05)) is not None:
            return found
    raise AssertionError("it says nothing")


def watched(child: Child) -> None:
    """Wait for it as long as it is not stopped."""
    until = time.monotonic() + SOON_S
    while time.monotonic() < until:
        child.check_stopped(0.1)
        child.hear(0.01)


def answered(child: Child, *request: Any) -> Reply[Any]:
    child.ask(*request)
    found = heard(child)
    assert isinstance(found, Reply)
    return found


def gone(pid: int) -> bool:
    """Whether a process that is not ours ends before long."""
    until = time.monotonic() + SOON_S
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                time.sleep(0.02)
                continue
        return True
    return False


def test_one_request_after_another_is_answered(start: Callable[..., Child]) -> None:
    child = start()
    assert [answered(child, "square", value).get() for value in (2, 3)] == [4, 9]
    assert child.free


def test_one_that_is_informed_knows_what_is_registered_here(start: Callable[..., Child]) -> None:
    pytest.importorskip("cloudpickle")
    informed, other = start(informed=True), start()
    assert answered(informed, "known").get() == []
    pt.register(TASKS)
    try:
        assert [answered(child, "known").get() for child in (informed, other)] == [["tasks"], []]
        assert answered(informed, "known").get() == ["tasks"]
    finally:
        pt.unregister(TASKS)
    assert answered(informed, "known").get() == []


def test_an_error_is_raised_here_with_its_traceback(start: Callable[..., Child]) -> None:
    child = start()
    with pytest.raises(InputError, match="3 stages are too many") as caught:
        answered(child, "refuse").get()
    assert isinstance(caught.value.__cause__, WorkerTraceback)
    assert "in _refuse" in str(caught.value.__cause__)
    assert answered(child, "square", 4).get() == 16, "it goes on"


@pytest.mark.parametrize(
    ("way", "kind", "message"),
    [
        ("lack", InputError, r"^torch is not installed; install it with"),
        ("leave", RuntimeError, r"^SystemExit: 5$"),
        ("unpicklable", Exception, r"pickle"),
    ],
)
def test_what_cannot_be_sent_is_said(
    start: Callable[..., Child], way: str, kind: type[Exception], message: str
) -> None:
    child = start()
    with pytest.raises(kind, match=message):
        answered(child, way).get()
    assert answered(child, "square", 4).get() == 16


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (("signal", signal.SIGSEGV), "was ended by SIGSEGV before it had answered"),
        (("signal", signal.SIGKILL), "was ended by SIGKILL before it had answered"),
        (("signal", 40), "was ended by signal 40 before it had answered"),
        (("complain", 7), "ended with status 7 before it had answered: the licence has run out"),
        (("complain", 0), "ended with status 0 before it had answered: the licence has run out"),
        (("garble",), "is not to be understood before it had answered: what it sent cannot be read"),
    ],
)
def test_an_end_is_no_answer(start: Callable[..., Child], request_: tuple[Any, ...], message: str) -> None:
    child = start()
    child.ask(*request_)
    with pytest.raises(ProcessError) as caught:
        heard(child)
    assert message in str(caught.value)
    assert not child.free


def test_one_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ProcessError, match=r"cannot be started: .*No such file"):
        Child(MODULE, ProcessError)


def test_much_that_is_written_holds_up_nobody(start: Callable[..., Child]) -> None:
    child = start()
    assert answered(child, "write", 20_000).get() == "written"
    child.ask("complain", 3)
    with pytest.raises(ProcessError) as caught:
        heard(child)
    assert len(caught.value.output.splitlines()) == 20
    assert str(caught.value).endswith("the licence has run out")


def test_words_are_heard_by_the_request_that_they_are_about(start: Callable[..., Child]) -> None:
    child = start()
    child.ask("count")
    child.say("early", 1)
    assert heard(child) == ("ready",)
    child.say("enough")
    assert heard(child).get() == [("early", 1), ("enough",)]
    child.say("late")
    child.ask("count")
    child.say("enough")
    assert heard(child) == ("ready",)
    assert heard(child).get() == [("enough",)]


def test_an_answer_to_what_was_asked_before_counts_no_more(start: Callable[..., Child]) -> None:
    child = start()
    child.ask("square", 5)
    assert answered(child, "square", 6).get() == 36


def test_one_that_ignores_requests_to_end_is_ended(start: Callable[..., Child]) -> None:
    child = start()
    child.ask("hang")
    assert heard(child)[0] == "deaf"
    child.process.terminate()
    assert child.hear(0.3) is None
    child.end()
    assert child.process.returncode == -signal.SIGKILL


def test_what_comes_from_it_ends_with_it(start: Callable[..., Child]) -> None:
    child = start()
    child.ask("descend")
    _, pid = heard(child)
    child.end()
    assert gone(pid)


def test_one_that_is_stopped_is_noticed(start: Callable[..., Child]) -> None:
    child = start()
    child.ask("hang")
    heard(child)
    child.check_stopped(0.1)
    os.kill(child.process.pid, signal.SIGSTOP)
    with pytest.raises(ProcessError, match="hangs: it is stopped by a signal, for 0 s now"):
        watched(child)
    os.kill(child.process.pid, signal.SIGCONT)
    time.sleep(0.3)
    child.check_stopped(0.1)
    os.kill(child.process.pid, signal.SIGKILL)
    with pytest.raises(ProcessError, match="SIGKILL"):
        watched(child)


@pytest.mark.parametrize("main", ["main", "forking"])
def test_nothing_is_left_by_one_who_is_killed(main: str) -> None:
    code = (
        "import sys, time, engines.processes.served as served\n"
        "from partita.engines.processes import child\n"
        f"child.main_of = lambda module: [sys.executable, '-c', f'from {{module}} import {main}; {main}()']\n"
        f"made = child.Child({MODULE!r}, print)\n"
        "made.ask('hang')\n"
        "print(made.hear(60)[1], flush=True)\n"
        "time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(pid)


def test_a_child_finds_what_this_process_finds(
    start: Callable[..., Child], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAID", "before")
    variables, paths, safe = answered(start(threads=3), "variables").get()
    assert variables["SAID"] == "before"
    assert {variables[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")} == {"3"}
    assert set(filter(None, sys.path)) <= set(paths)
    assert safe


# -- those that are kept ---------------------------------------------------------------------------------------------


@pytest.fixture
def _none_left() -> Iterator[None]:
    yield
    for child in kept.IDLE.pop("squares", []):
        child.end()


@pytest.mark.usefixtures("_none_left")
def test_a_child_that_has_answered_is_used_again() -> None:
    for _ in range(2):
        with kept_child("squares", MODULE, ProcessError) as child:
            assert answered(child, "square", 3).get() == 9
        assert kept.IDLE["squares"] == [child]
    child.process.kill()
    child.process.wait()
    with kept_child("squares", MODULE, ProcessError) as other:
        assert answered(other, "square", 3).get() == 9
    assert other is not child


@pytest.mark.usefixtures("_none_left")
def test_one_that_has_not_is_ended() -> None:
    with kept_child("squares", MODULE, ProcessError) as busy:
        busy.ask("hang")
    with pytest.raises(KeyError), kept_child("squares", MODULE, ProcessError) as failing:
        raise KeyError
    assert [busy.process.returncode, failing.process.returncode] == [-signal.SIGKILL] * 2
    assert kept.IDLE["squares"] == []


@pytest.mark.usefixtures("_none_left")
def test_only_some_are_kept() -> None:
    with contextlib.ExitStack() as beside:
        made = [beside.enter_context(kept_child("squares", MODULE, ProcessError)) for _ in range(MOST_IDLE + 1)]
    assert len(kept.IDLE["squares"]) == MOST_IDLE
    assert sum(child.process.returncode is not None for child in made) == 1
