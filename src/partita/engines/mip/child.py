"""The child process that runs backends, one program after another: the parent's side, and its own.

Backends run apart from the caller because two of them ship different builds of one shared library, so that only one of
the two can be loaded into a process; a child can also be ended at any moment, whatever it is doing.

A request is ``(backend, program, settings)``, its answer a ``ProgramResult``. Meanwhile the parent says ``("stop",)``
and ``("offer", values, objective)``, and the child tells ``("incumbent", values, objective)`` and ``("bound", bound)``.
"""

from __future__ import annotations

import math
import threading
import time
from functools import partial
from typing import Any, NoReturn

from partita.engines.mip.backend import BACKENDS, SCHEDULERS, BackendSettings, run_backend
from partita.engines.mip.model import UNKNOWN, Callbacks, Floats, Minimised, ProgramResult
from partita.engines.processes.child import Child
from partita.engines.processes.kept import kept_child
from partita.engines.processes.replies import Reply
from partita.engines.processes.serving import Request, serve
from partita.engines.search.result import Status
from partita.ground.errors import SolverCrashError

#: Seconds between two looks at the stop button, and seconds a child gets to answer after a stop or its time limit.
POLL_S = 0.03
GRACE_S = 0.7


def run_in_child(
    backend: str, program: Minimised, calls: Callbacks, time_limit_s: float | None, **settings: Any
) -> ProgramResult:
    """``solve_program``, checked; see there, and ``BackendSettings``."""
    if time_limit_s is not None and time_limit_s <= 0:
        return UNKNOWN
    ends = math.inf if time_limit_s is None else time.monotonic() + time_limit_s
    with kept_child(backend, __name__, partial(SolverCrashError, backend)) as child:
        return _run(child, backend, program, BackendSettings(ends, **settings), calls)


def _run(child: Child, backend: str, program: Minimised, settings: BackendSettings, calls: Callbacks) -> ProgramResult:
    best = UNKNOWN
    deadline = settings.ends + GRACE_S
    stopped = False
    child.ask(SCHEDULERS[backend] if backend in SCHEDULERS else BACKENDS[backend], program, settings)
    bound, known = -math.inf, math.inf
    while time.monotonic() < deadline:
        if not stopped and calls.stop():
            stopped = True
            child.say("stop")
            deadline = min(deadline, time.monotonic() + GRACE_S)
        if not stopped and calls.better is not None:
            found = calls.better(known)
            if found is not None:
                known = program.value(found)
                child.say("offer", found, known)
        heard = child.hear(POLL_S)
        if heard is None:
            continue
        if isinstance(heard, Reply):
            if heard.error is not None:
                raise SolverCrashError(backend, "failed", heard.where)
            result: ProgramResult = heard.get()
            return result
        what, *content = heard
        if what == "incumbent":
            values, objective = content
            if objective < best.objective or best.values is None:
                best = ProgramResult(Status.FEASIBLE, values, objective, bound)
                known = min(known, objective)
            if calls.on_incumbent is not None:
                calls.on_incumbent(values, objective)
        elif content[0] > bound:
            bound = content[0]
            if calls.on_bound is not None:
                calls.on_bound(bound)
    return ProgramResult(best.status, best.values, best.objective, bound)


class Told:
    """What the parent says about a program: whether to stop, and the last solution that it has on offer."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self._stopped = False
        self._offer: tuple[Floats, float] | None = None
        # Backends ask from several threads.
        self._lock = threading.Lock()

    def _listen(self) -> None:
        for what, *content in self.request.heard():
            if what == "stop":
                self._stopped = True
            else:
                values, objective = content
                self._offer = values, objective

    def stop(self) -> bool:
        with self._lock:
            self._listen()
            return self._stopped

    def better(self, objective: float) -> Floats | None:
        with self._lock:
            self._listen()
            offer, self._offer = self._offer, None
        return offer[0] if offer is not None and offer[1] < objective else None


def _solve(request: Request) -> ProgramResult:
    backend, program, settings = request.content
    told = Told(request)
    calls = Callbacks(
        stop=told.stop,
        on_incumbent=partial(request.tell, "incumbent"),
        on_bound=partial(request.tell, "bound"),
        better=told.better,
    )
    return run_backend(backend, program, settings, calls)


def main() -> NoReturn:
    """Run programs and report on them until the parent hangs up."""
    serve(_solve)
