"""A linear program that gets more rows and is solved again from where it stood: the parent's side, and the child's.

After new rows the dual simplex method goes on from the last basis, which takes some hundredths of the time that the
whole program takes. A child keeps the program that it was asked about last; asked about another, it gets all of that.
"""

from __future__ import annotations

import importlib
import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from partita.engines.mip.backend import BACKENDS
from partita.engines.mip.child import POLL_S
from partita.engines.mip.highs import Standing
from partita.engines.mip.model import Floats, MixedProgram
from partita.engines.processes.child import Child
from partita.engines.processes.kept import kept_child
from partita.engines.processes.replies import Reply
from partita.engines.processes.serving import Request, serve
from partita.ground.errors import SolverCrashError

#: What a child answers that has another program by now.
GONE = "gone"

_numbers = itertools.count()


class GrowingProgram:
    """A linear ``program`` without rows that go; those that are added to it are taken in when it is solved next.

    What HiGHS makes of it holds up to its tolerances and proves nothing.
    """

    def __init__(self, program: MixedProgram) -> None:
        self.program = program
        self._number = next(_numbers)
        #: The child that has it, and how many of its rows.
        self._child: Child | None = None
        self._sent = 0

    def solve(
        self, *, within: tuple[Floats, Floats] | None = None, time_limit_s: float, stop: Callable[[], bool]
    ) -> Floats | None:
        """(variables,) an optimum; None if none was found in time.

        This time alone the first variables may be held ``within`` bounds, lower and upper ones.
        Raises ``SolverCrashError`` if HiGHS fails, or its process ends before it has answered.
        """
        ends, backend = time.monotonic() + time_limit_s, BACKENDS["highs"]
        with kept_child("growing", __name__, partial(SolverCrashError, "highs")) as child:
            answer: Floats | str | None = GONE
            if child is self._child:
                answer = _asked(
                    child, (backend, self._number, None, self.program.rows[self._sent :], within), ends, stop
                )
            if isinstance(answer, str):
                answer = _asked(child, (backend, self._number, self.program, [], within), ends, stop)
            self._child, self._sent = child, len(self.program.rows)
        return None if isinstance(answer, str) else answer


def _asked(child: Child, request: tuple[Any, ...], ends: float, stop: Callable[[], bool]) -> Floats | str | None:
    """The answer to a request; None if it does not come in time, and the child is no longer of use."""
    child.ask(*request)
    while time.monotonic() < ends and not stop():
        heard = child.hear(POLL_S)
        if isinstance(heard, Reply):
            if heard.error is not None:
                raise SolverCrashError("highs", "failed", heard.where)
            answer: Floats | str | None = heard.get()
            return answer
    return None


class _Kept:
    """What a child has: the number of a program, and what the backend has made of it."""

    standing: Standing

    def __init__(self) -> None:
        self.number = -1

    def solve(self, request: Request) -> Floats | str | None:
        """Values of a program, if it is new or this is the one that is kept."""
        backend, number, program, rows, within = request.content
        if program is not None:
            self.standing = importlib.import_module(backend.module).Standing(program)
            self.number = number
        elif number != self.number:
            return GONE
        return self.standing.solve(rows, within)


def main() -> NoReturn:
    """Solve programs until the parent hangs up."""
    serve(_Kept().solve)
