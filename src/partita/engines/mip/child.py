"""The parent's side of a child process that runs backends; see ``partita.engines.mip.worker``."""

from __future__ import annotations

import math
import time
from functools import partial

from partita.engines.mip.backend import BACKENDS, SCHEDULERS, BackendSettings
from partita.engines.mip.model import UNKNOWN, Callbacks, Minimised, ProgramResult, ProgramStatus
from partita.engines.processes.child import Child
from partita.engines.processes.kept import kept_child
from partita.engines.processes.replies import Reply
from partita.ground.errors import SolverCrashError

#: Seconds between two looks at the stop button, and seconds a child gets to answer after a stop or its time limit.
POLL_S = 0.03
GRACE_S = 0.7


def run_in_child(backend: str, program: Minimised, settings: BackendSettings, calls: Callbacks) -> ProgramResult:
    """``solve_program``, checked; see there."""
    with kept_child(backend, "partita.engines.mip.worker", partial(SolverCrashError, backend)) as child:
        return _run(child, backend, program, settings, calls)


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
                best = ProgramResult(ProgramStatus.FEASIBLE, values, objective, bound)
                known = min(known, objective)
            if calls.on_incumbent is not None:
                calls.on_incumbent(values, objective)
        elif content[0] > bound:
            bound = content[0]
            if calls.on_bound is not None:
                calls.on_bound(bound)
    return ProgramResult(best.status, best.values, best.objective, bound)
