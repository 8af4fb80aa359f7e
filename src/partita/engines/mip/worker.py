"""The child process that runs backends, one program after another.

Backends run apart from the caller because two of them ship different builds of one shared library, so that only one of
the two can be loaded into a process; a child can also be ended at any moment, whatever it is doing.

A request is ``(backend, program, settings)``, its answer a ``ProgramResult``. Meanwhile the parent says ``("stop",)``
and ``("offer", values, objective)``, and the child tells ``("incumbent", values, objective)`` and ``("bound", bound)``.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import NoReturn

from partita.engines.mip.backend import run_backend
from partita.engines.mip.model import Callbacks, Floats, ProgramResult
from partita.engines.processes.serving import Request, serve


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
