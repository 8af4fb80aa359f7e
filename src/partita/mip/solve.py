"""One door to all backends."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import importlib.util
import math
import os
import queue
import subprocess
import sys
import threading
import time
from typing import Any

from partita.errors import InputError, MissingExtraError
from partita.mip.model import Callbacks, Floats, Model, ProgramResult, ProgramStatus
from partita.mip.worker import receive, send

__all__ = ["BACKENDS", "available", "solve_program"]

#: Backends and the package each needs.
BACKENDS = {"highs": "highspy", "cpsat": "ortools", "scip": "pyscipopt"}

#: Seconds between two looks at the stop button, and seconds a child gets to answer after a stop or its time limit.
POLL_S = 0.03
GRACE_S = 0.7


def available(backend: str) -> bool:
    """Whether the backend's package is installed, without importing it."""
    return importlib.util.find_spec(BACKENDS[backend]) is not None


def solve_program(
    model: Model,
    backend: str,
    *,
    time_limit_s: float | None = None,
    threads: int = 1,
    seed: int = 0,
    gap: float = 1e-7,
    warm_start: Floats | None = None,
    cutoff: float | None = None,
    central: bool = False,
    callbacks: Callbacks | None = None,
) -> ProgramResult:
    """Minimise a program.

    Parameters
    ----------
    model
        The program.
    backend
        ``highs``, ``cpsat`` or ``scip``.
    time_limit_s
        Wall time; None for no limit.
    threads
        Most threads of the backend. SCIP always uses one.
    seed
        Seed of the backend.
    gap
        Relative gap at which it may stop.
    warm_start
        A solution to start from.
    cutoff
        Only solutions with a smaller objective are wanted: the bound may be proven up to this value only, and
        ``infeasible`` then means that there is none below it.
    central
        For a linear program HiGHS may end with a point amid the nearly optimal ones instead of at a vertex.
    callbacks
        How the run talks.

    Raises
    ------
    MissingExtraError
        If the backend's package is not installed.
    InputError
        If there is no such backend.
    """
    if backend not in BACKENDS:
        raise InputError(f"there is no MIP backend {backend!r}; known are {', '.join(BACKENDS)}")
    if not available(backend):
        raise MissingExtraError(BACKENDS[backend], "solvers")
    if cutoff is not None:
        # As a row, because every backend means something else by a cutoff.
        model = dataclasses.replace(model, rows=list(model.rows))
        model.add_row([(v, cost) for v, cost in enumerate(model.cost) if cost], upper=cutoff)
    settings = {
        "time_limit_s": time_limit_s,
        "threads": threads,
        "seed": seed,
        "gap": gap,
        "warm_start": warm_start,
        "cutoff": cutoff,
        "central": central,
    }
    with _IDLE_LOCK:
        idle = _IDLE.setdefault(backend, [])
        child = idle.pop() if idle else None
    if child is None or child.process.poll() is not None:
        child = _Child()
    result, usable = child.watch(model, backend, settings, Callbacks() if callbacks is None else callbacks)
    with _IDLE_LOCK:
        if usable and len(_IDLE[backend]) < MOST_IDLE:
            _IDLE[backend].append(child)
        else:
            child.end()
    return result


class _Child:
    """A process that runs one program after another."""

    def __init__(self) -> None:
        paths = [path for path in sys.path if path]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "partita.mip.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            # Ctrl-C is the parent's to interpret.
            start_new_session=True,
        )
        self.messages: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self.jobs = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while True:
            try:
                message = receive(self.process.stdout)
            except (OSError, ValueError):
                message = None
            self.messages.put(message)
            if message is None:
                return

    def _say(self, *message: Any) -> None:
        assert self.process.stdin is not None
        # If it has ended by itself, what it said last is still in the queue.
        with contextlib.suppress(BrokenPipeError, ValueError):
            send(self.process.stdin, message)

    def end(self) -> None:
        """Whatever it is doing."""
        self.process.kill()
        self.process.wait()

    def watch(
        self, model: Model, backend: str, settings: dict[str, Any], calls: Callbacks
    ) -> tuple[ProgramResult, bool]:
        """Run a program: the result, and whether the child can take another one."""
        try:
            found = self._watch(model, backend, settings, calls)
        except BaseException:
            self.end()
            raise
        return found

    def _watch(
        self, model: Model, backend: str, settings: dict[str, Any], calls: Callbacks
    ) -> tuple[ProgramResult, bool]:
        values: Floats | None = None
        objective, bound = math.inf, -math.inf
        limit = settings["time_limit_s"]
        deadline = math.inf if limit is None else time.monotonic() + limit + GRACE_S
        stopped = False
        self.jobs += 1
        self._say("job", self.jobs, model, backend, settings)
        while time.monotonic() < deadline:
            if not stopped and calls.stop():
                stopped = True
                self._say("stop", self.jobs)
                deadline = min(deadline, time.monotonic() + GRACE_S)
            if not stopped and calls.better is not None:
                found = calls.better(objective)
                if found is not None:
                    objective = model.value(found)
                    self._say("offer", self.jobs, found, objective)
            try:
                message = self.messages.get(timeout=POLL_S)
            except queue.Empty:
                continue
            if message is None:
                break
            if message[0] == "result":
                return message[1], True
            if message[0] == "incumbent":
                if message[2] < objective or values is None:
                    values, objective = message[1], message[2]
                if calls.on_incumbent is not None:
                    calls.on_incumbent(message[1], message[2])
            elif message[0] == "bound" and message[1] > bound:
                bound = message[1]
                if calls.on_bound is not None:
                    calls.on_bound(bound)
        status = ProgramStatus.UNKNOWN if values is None else ProgramStatus.FEASIBLE
        return ProgramResult(status, values, math.inf if values is None else model.value(values), bound), False


#: Children without work, by backend: starting one takes longer than many of the programs.
_IDLE: dict[str, list[_Child]] = {}
_IDLE_LOCK = threading.Lock()
MOST_IDLE = 2


@atexit.register
def _end_idle() -> None:
    for children in _IDLE.values():
        for child in children:
            child.end()
