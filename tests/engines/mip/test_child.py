"""The processes that run the backends: nothing that befalls them is lost, taken for a proof or waited for in vain."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.mip.programs import hard
from partita.engines.mip.backend import Backend
from partita.engines.mip.child import Told
from partita.engines.mip.model import Callbacks, MixedProgram, ProgramResult
from partita.engines.mip.solve import BACKENDS, available, solve_program
from partita.engines.processes import kept
from partita.engines.processes.child import Child
from partita.engines.processes.serving import Request
from partita.engines.search.result import Status
from partita.ground.errors import InputError, SolverCrashError
from running import broken_backend as broken
from running.soon import SOON_S


@pytest.fixture(autouse=True)
def _broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(BACKENDS, "broken", Backend("running.broken_backend", "numpy"))
    yield
    for child in kept.IDLE.pop("broken", []):
        child.end()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Child]:
    """The children that the test starts."""
    made: list[Child] = []

    class Noted(kept.Child):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(kept, "Child", Noted)
    return made


def program() -> MixedProgram:
    model = MixedProgram()
    model.add_binary(1.0)
    return model


def within(work: Callable[[], ProgramResult]) -> ProgramResult:
    """What ``work`` hands back or raises; a failure if that takes longer."""
    answer: list[ProgramResult | BaseException] = []

    def target() -> None:
        try:
            answer.append(work())
        except BaseException as error:
            answer.append(error)

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    thread.join(SOON_S)
    assert not thread.is_alive(), f"it waits for ever, or longer than {SOON_S} s"
    if isinstance(answer[0], BaseException):
        raise answer[0]
    return answer[0]


@pytest.mark.parametrize(
    ("way", "message"),
    [
        (broken.RAISES, "broken failed: ArithmeticError: the pivot is gone"),
        (broken.NO_MEMORY, "broken failed: MemoryError"),
        (broken.SEGFAULT, "broken was ended by SIGSEGV before it had answered"),
        (broken.KILLED, "broken was ended by SIGKILL before it had answered"),
        (broken.EXITS, "broken ended with status 7 before it had answered: the licence has run out"),
        (broken.GARBLED, "broken is not to be understood before it had answered: what it sent cannot be read"),
        (broken.UNPICKLABLE, "broken failed: TypeError: this stays here"),
    ],
)
def test_a_crash_is_an_error_that_says_how(way: int, message: str, started: list[Child]) -> None:
    bounds: list[float] = []
    calls = Callbacks(on_bound=bounds.append)
    with pytest.raises(SolverCrashError) as caught:
        within(lambda: solve_program(program(), "broken", seed=way, callbacks=calls))
    assert message in str(caught.value)
    assert caught.value.backend == "broken"
    assert bounds == [1.0], "what it had proven before"
    assert [child.process.returncode is not None for child in started] == [True], "it is gone, and waited for"
    assert not any(thread.is_alive() for thread in started[0].threads)
    assert kept.IDLE.get("broken", []) == []


def test_after_a_crash_the_next_program_gets_another_child() -> None:
    with pytest.raises(SolverCrashError):
        solve_program(program(), "broken", seed=broken.SEGFAULT)
    assert solve_program(program(), "broken", seed=broken.FINE).bound == 1.0


def test_a_child_that_died_without_work_is_replaced(started: list[Child]) -> None:
    solve_program(program(), "broken", seed=broken.FINE)
    solve_program(program(), "broken", seed=broken.FINE)
    assert len(started) == 1
    started[0].process.kill()
    started[0].process.wait()
    assert solve_program(program(), "broken", seed=broken.FINE).bound == 1.0
    assert len(started) == 2


def test_what_is_said_late_does_not_count_for_the_next_program(started: list[Child]) -> None:
    solve_program(program(), "broken", seed=broken.LATE)
    bounds: list[float] = []
    result = solve_program(program(), "broken", seed=broken.FINE, callbacks=Callbacks(on_bound=bounds.append))
    assert len(started) == 1
    assert result.bound == 1.0
    assert bounds == [1.0]


def test_a_message_that_the_child_cannot_read_is_an_error(started: list[Child]) -> None:
    def better(objective: float) -> np.ndarray:
        started[0]._outbox.put(b"\x03" + 7 * b"\x00" + b"???")
        return np.zeros(1)

    with pytest.raises(SolverCrashError, match=r"ended with status 1 before it had answered: .*UnpicklingError"):
        within(lambda: solve_program(program(), "broken", seed=broken.FINE, callbacks=Callbacks(better=better)))


def test_a_child_that_hangs_is_given_up_after_its_time(started: list[Child]) -> None:
    # Offers of 800 kB: more than a pipe holds.
    model, values = program(), np.zeros(100_000)
    model.cost = [0.0] * len(values)
    calls = Callbacks(better=lambda objective: values)
    solve_program(program(), "broken", seed=broken.FINE)
    began = time.monotonic()
    result = within(lambda: solve_program(model, "broken", seed=broken.HANGS, time_limit_s=1.0, callbacks=calls))
    assert time.monotonic() - began >= 1.0
    assert (result.status, result.bound) == (Status.UNKNOWN, 1.0)
    assert len(started) == 1
    assert started[0].process.returncode == -signal.SIGKILL


def test_a_child_that_does_not_read_is_given_up_after_its_time(started: list[Child]) -> None:
    solve_program(program(), "broken", seed=broken.FINE)
    os.kill(started[0].process.pid, signal.SIGSTOP)
    large = program()
    large.cost = [0.0] * 1_000_000
    within(lambda: solve_program(large, "broken", seed=broken.FINE, time_limit_s=0.5))
    assert started[0].process.returncode == -signal.SIGKILL


def test_what_a_callback_raises_ends_the_child(started: list[Child]) -> None:
    def refuse(bound: float) -> None:
        raise KeyError("no")

    with pytest.raises(KeyError):
        solve_program(program(), "broken", seed=broken.FINE, callbacks=Callbacks(on_bound=refuse))
    assert started[0].process.returncode is not None


@pytest.mark.parametrize("limit", [0.0, -1.0])
def test_without_time_nothing_is_started(limit: float, started: list[Child]) -> None:
    result = solve_program(program(), "broken", time_limit_s=limit)
    assert (result.status, result.values, result.bound) == (Status.UNKNOWN, None, -np.inf)
    assert started == []


def test_a_process_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(SolverCrashError, match=r"broken cannot be started: .*No such file"):
        solve_program(program(), "broken")


def test_files_of_the_current_folder_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    assert solve_program(program(), "broken", seed=broken.FINE).bound == 1.0


def test_infinite_ranges_are_refused_where_they_do_not_go() -> None:
    if not available("cpsat"):
        pytest.skip("ortools is not installed")
    model = program()
    model.add_continuous()
    with pytest.raises(InputError, match="cpsat needs finite bounds"):
        solve_program(model, "cpsat")


HARD = """
import os, sys, threading, time
from engines.mip.programs import hard
from partita.engines.processes import kept
from partita.engines.mip.model import Callbacks, MixedProgram
from partita.engines.mip.solve import solve_program

model = hard()

class Noted(kept.Child):
    def __init__(self, *given):
        super().__init__(*given)
        print(self.process.pid, flush=True)

kept.Child = Noted
"""


def gone(process: int, seconds: float) -> bool:
    """Whether a process that is not ours ends within the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.kill(process, 0)
            if "\nState:\tZ" in Path(f"/proc/{process}/status").read_text():
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not hasattr(os, "fork"), reason="looks at processes as POSIX shows them")
@pytest.mark.parametrize("backend", ["highs", "cpsat", "scip"])
def test_children_of_a_killed_process_end(backend: str) -> None:
    if not available(backend):
        pytest.skip(f"{backend} is not installed")
    code = HARD + (
        "runs = lambda *found: print('runs', flush=True)\n"
        "calls = Callbacks(on_bound=runs, on_incumbent=runs)\n"
        f"solve_program(model, {backend!r}, gap=0.0, callbacks=calls)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    assert parent.stdout is not None
    process = int(parent.stdout.readline())
    assert parent.stdout.readline() == "runs\n"
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(process, SOON_S)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="about fork")
def test_a_fork_leaves_the_children_to_its_parent() -> None:
    code = HARD + (
        "small = MixedProgram(); small.add_binary(1.0)\n"
        "solve_program(small, 'highs')\n"
        "if os.fork() == 0:\n"
        "    solve_program(small, 'highs'); sys.exit()\n"
        "os.wait()\n"
        "print(solve_program(small, 'highs').status)\n"
    )
    if not available("highs"):
        pytest.skip("highspy is not installed")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=SOON_S)
    lines = run.stdout.split()
    assert run.returncode == 0, run.stderr
    assert len(lines) == 3, "one child each, and the parent's is used again"
    assert lines[-1] == "optimal"
    assert all(gone(int(line), 5) for line in lines[:2])


def busy_threads(process: int) -> int:
    """Threads that have had the processor for more than a tenth of a second."""
    ticks = os.sysconf("SC_CLK_TCK")
    used = []
    for path in Path(f"/proc/{process}/task").iterdir():
        try:
            fields = path.joinpath("stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # It has ended since it was listed.
        used.append((int(fields[11]) + int(fields[12])) / ticks)
    return sum(seconds > 0.1 for seconds in used)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at threads as Linux shows them")
@pytest.mark.parametrize("backend", ["highs", "cpsat", "scip"])
def test_one_thread_means_one(backend: str, started: list[Child]) -> None:
    if not available(backend):
        pytest.skip(f"{backend} is not installed")
    counts: list[int] = []

    def stop() -> bool:
        counts.extend(busy_threads(child.process.pid) for child in started)
        return False

    kept.IDLE.pop(backend, None)
    solve_program(hard(), backend, threads=1, gap=0.0, time_limit_s=3.0, callbacks=Callbacks(stop=stop))
    assert max(counts) == 1


# -- what the child is told ------------------------------------------------------------------------------------------


class Interrupted(Request):
    """A request about which more is said just when what has come is taken."""

    def __init__(self) -> None:
        super().__init__(1, (), io.BytesIO())
        self.more: list[tuple[Any, ...]] = []

    def heard(self) -> Iterator[tuple[Any, ...]]:
        yield from super().heard()
        for words in self.more:
            self.words.put(words)
        self.more = []


def test_an_offer_that_comes_while_another_one_is_taken_is_kept() -> None:
    request = Interrupted()
    told = Told(request)
    request.words.put(("offer", np.array([1.0]), 10.0))
    request.more = [("offer", np.array([2.0]), 9.0)]
    assert told.better(np.inf) == np.array([1.0])
    assert told.better(np.inf) == np.array([2.0])
    assert told.better(np.inf) is None


def test_the_last_offer_counts_if_it_is_better() -> None:
    request = Request(1, (), io.BytesIO())
    told = Told(request)
    request.words.put(("offer", np.array([1.0]), 10.0))
    request.words.put(("offer", np.array([2.0]), 9.0))
    assert not told.stop()
    assert told.better(9.5) == np.array([2.0])
    request.words.put(("offer", np.array([3.0]), 8.0))
    assert told.better(8.0) is None, "it is no better"


def test_a_stop_lasts() -> None:
    request = Request(1, (), io.BytesIO())
    told = Told(request)
    request.words.put(("stop",))
    assert told.better(np.inf) is None
    assert told.stop()
    assert told.stop()
