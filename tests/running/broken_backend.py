"""A backend that fails in the way that its seed, or ``BROKEN_BACKEND`` in the environment, names.

It runs in the child only.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any

from partita.engines.mip.backend import BackendAnswer, BackendSettings, Talk
from partita.engines.mip.model import MixedProgram

EXACT = True

RAISES, NO_MEMORY, SEGFAULT, KILLED, EXITS, GARBLED, LATE, HANGS, UNPICKLABLE, FINE = range(10)


def solve(program: MixedProgram, settings: BackendSettings, talk: Talk) -> BackendAnswer:
    """Report a bound of 1, then fail."""
    if "BROKEN_BACKEND" not in os.environ:
        talk.bound(1.0)
    way = int(os.environ.get("BROKEN_BACKEND", settings.seed))
    if way == RAISES:
        raise ArithmeticError("the pivot is gone")
    if way == NO_MEMORY:
        raise MemoryError
    if way == SEGFAULT:
        os.kill(os.getpid(), signal.SIGSEGV)
    if way == KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    if way == EXITS:
        print("the licence has run out", file=sys.stderr, flush=True)
        os._exit(7)
    if way == GARBLED:
        _channel().write(b"\x03" + 7 * b"\x00" + b"???")
        _channel().flush()
        time.sleep(60)
    if way == LATE:
        # Said on behalf of this job when the next one runs already.
        threading.Timer(0.3, lambda: talk.bound(1e9)).start()
        return BackendAnswer(bound=1.0)
    if way == HANGS:
        os.kill(os.getpid(), signal.SIGSTOP)
    if way == UNPICKLABLE:
        return BackendAnswer(values=_Unpicklable())  # type: ignore[arg-type]
    time.sleep(0.6)
    return BackendAnswer(bound=1.0)


class Standing:
    """A program that stays, of a backend that ends its process."""

    def __init__(self, program: MixedProgram) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)


def _channel() -> Any:
    """What the worker writes its messages to."""
    frame: Any = sys._getframe()
    while "out" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["out"]


class _Unpicklable:
    def __array__(self, *arguments: Any, **keywords: Any) -> Any:
        import numpy as np

        return np.zeros(1)

    def __reduce__(self) -> Any:
        raise TypeError("this stays here")
