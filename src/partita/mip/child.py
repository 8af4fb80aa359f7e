"""The parent's side of a child process that runs backends; see ``partita.mip.worker``."""

from __future__ import annotations

import atexit
import collections
import contextlib
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from typing import IO, Any

from partita.errors import SolverCrashError
from partita.mip.backend import BACKENDS, SCHEDULERS, Settings
from partita.mip.model import UNKNOWN, Callbacks, Program, ProgramResult, ProgramStatus
from partita.mip.worker import packed, receive

#: Seconds between two looks at the stop button, and seconds a child gets to answer after a stop or its time limit.
POLL_S = 0.03
GRACE_S = 0.7
#: Most children without work that are kept for a backend, and lines kept of what a child writes.
MOST_IDLE, MOST_LINES = 2, 20
#: Libraries below the backends would start a thread per processor otherwise.
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM", "NUMEXPR")}


def run_in_child(backend: str, program: Program, settings: Settings, calls: Callbacks) -> ProgramResult:
    """``solve_program``, checked; see there."""
    child = _take(backend)
    try:
        result, usable = child.run(backend, program, settings, calls)
    except BaseException:
        child.end()
        raise
    with _LOCK:
        idle = _IDLE.setdefault(backend, [])
        usable = usable and len(idle) < MOST_IDLE
        if usable:
            idle.append(child)
    if not usable:
        child.end()
    return result


class _Child:
    """A process that runs one program after another."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            # Without -P a file of the current folder could stand in for a module.
            [sys.executable, "-P", "-m", "partita.mip.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
            # Ctrl-C is the parent's to interpret.
            start_new_session=True,
        )
        self.messages: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self.outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.lines: collections.deque[str] = collections.deque(maxlen=MOST_LINES)
        self.jobs = 0
        pipes = (
            (self._read, self.process.stdout),
            (self._write, self.process.stdin),
            (self._listen, self.process.stderr),
        )
        self.threads = [threading.Thread(target=work, args=(stream,), daemon=True) for work, stream in pipes]
        for thread in self.threads:
            thread.start()

    def _read(self, stream: IO[bytes]) -> None:
        try:
            with stream:
                while (message := receive(stream)) is not None:
                    self.messages.put(message)
        except Exception as error:
            self.lines.append(f"what it sent cannot be read: {error!r}")
        finally:
            self.messages.put(None)

    def _write(self, stream: IO[bytes]) -> None:
        """In a thread of its own: a child that does not read must not hold up its parent."""
        # If it has ended by itself, what it said last is still among the messages.
        with contextlib.suppress(OSError), stream:
            while (data := self.outbox.get()) is not None:
                stream.write(data)
                stream.flush()

    def _listen(self, stream: IO[bytes]) -> None:
        with stream:
            self.lines.extend(line.decode(errors="replace").rstrip() for line in stream)

    @property
    def alive(self) -> bool:
        """Whether it can take a program."""
        return self.process.poll() is None and self.messages.empty()

    def end(self) -> None:
        """Whatever it is doing."""
        self.process.kill()
        self.process.wait()
        self.outbox.put(None)
        for thread in self.threads:
            thread.join(GRACE_S)

    def run(self, backend: str, program: Program, settings: Settings, calls: Callbacks) -> tuple[ProgramResult, bool]:
        """Run a program: the result, and whether the child can take another one.

        Raises
        ------
        SolverCrashError
            If the child ends before it has answered, or its backend raises.
        """
        best = UNKNOWN
        deadline = settings.ends + GRACE_S
        stopped = False
        self.jobs += 1
        listed = SCHEDULERS[backend] if backend in SCHEDULERS else BACKENDS[backend]
        self.outbox.put(packed("job", self.jobs, listed, program, settings))
        bound, known = -math.inf, math.inf
        while time.monotonic() < deadline:
            if not stopped and calls.stop():
                stopped = True
                self.outbox.put(packed("stop", self.jobs))
                deadline = min(deadline, time.monotonic() + GRACE_S)
            if not stopped and calls.better is not None:
                found = calls.better(known)
                if found is not None:
                    known = program.value(found)
                    self.outbox.put(packed("offer", self.jobs, found, known))
            try:
                message = self.messages.get(timeout=POLL_S)
            except queue.Empty:
                continue
            if message is None:
                raise SolverCrashError(backend, *self._last())
            number, what, *content = message
            if number != self.jobs:
                continue
            if what == "result":
                return content[0], True
            if what == "error":
                raise SolverCrashError(backend, "failed", content[0])
            if what == "incumbent":
                values, objective = content
                if objective < best.objective or best.values is None:
                    best = ProgramResult(ProgramStatus.FEASIBLE, values, objective, bound)
                    known = min(known, objective)
                if calls.on_incumbent is not None:
                    calls.on_incumbent(values, objective)
            elif content[0] > bound:
                bound = content[0]
                if calls.on_bound is not None:
                    calls.on_bound(bound)
        return ProgramResult(best.status, best.values, best.objective, bound), False

    def _last(self) -> tuple[str, str]:
        """How it ended, and the last that it wrote."""
        try:
            status = self.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            how = "is not to be understood"
        else:
            how = f"was ended by {_signal(-status)}" if status < 0 else f"ended with status {status}"
        self.threads[-1].join(GRACE_S)
        return f"{how} before it had answered", "\n".join(self.lines)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


#: Children without work, by backend: starting one takes longer than many of the programs.
_IDLE: dict[str, list[_Child]] = {}
_LOCK = threading.Lock()


def _take(backend: str) -> _Child:
    """A child without work, or a new one."""
    while True:
        with _LOCK:
            idle = _IDLE.get(backend)
            child = idle.pop() if idle else None
        if child is None:
            try:
                return _Child()
            except OSError as error:
                raise SolverCrashError(backend, "cannot be started", str(error)) from error
        if child.alive:
            return child
        child.end()


def _end_idle() -> None:
    for children in _IDLE.values():
        for child in children:
            child.end()


def _forget() -> None:
    """After a fork: the children are the other process's, and so may be the lock."""
    global _LOCK
    _LOCK = threading.Lock()
    _IDLE.clear()


atexit.register(_end_idle)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
