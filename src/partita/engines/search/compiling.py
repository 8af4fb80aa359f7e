"""Time that this process spends compiling, which no time limit counts: it is spent once on a machine.

The compiled kernels say when they begin and end (``kernels.compiled``); clocks ask how long it took so far.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: What people are told, once, when it begins.
NOTE = "compiling kernels, once on this machine: up to a minute, which no time limit counts"

#: Who tells them; nobody unless set.
tell: Callable[[str], None] | None = None

_lock = threading.Lock()
_depth = 0
_since = _total = 0.0
_told = False


def begin() -> None:
    """Something begins to compile, perhaps inside something else or beside it."""
    global _depth, _since, _told
    with _lock:
        if _depth == 0:
            _since = time.perf_counter()
        _depth += 1
        first, _told = not _told, True
    if first and tell is not None:
        tell(NOTE)


def end() -> None:
    """It has ended."""
    global _depth, _total
    with _lock:
        _depth -= 1
        if _depth == 0:
            _total += time.perf_counter() - _since


def spent_s() -> float:
    """Wall time so far in which anything was compiled."""
    with _lock:
        return _total + (time.perf_counter() - _since if _depth else 0.0)
