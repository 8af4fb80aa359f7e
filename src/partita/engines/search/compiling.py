"""Time that this process spends compiling, which no time limit counts: it is spent once on a machine.

The compiled kernels say when they begin and end (``kernels.compiled``); clocks ask how long it took so far. What other
processes compile meanwhile for this one is time of theirs; waiting for it is compiling, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

#: Who is told in a sentence, once, when it begins; nobody unless set.
tell: Callable[[str], None] | None = None

#: Whether other processes may be started to compile for this one.
beside = False

#: Kernels that are known to be missing: whether each is there by now.
expected: list[Callable[[], bool]] = []

_lock = threading.Lock()
_depth = 0
_since = _total = 0.0
_told = False


def note() -> str:
    """What people are told."""
    what = f"{len(expected)} kernels" if len(expected) > 1 else "kernels"
    return f"compiling {what}, once on this machine: half a minute, or a few minutes, which no time limit counts"


def expect(kernels: Sequence[Callable[[], bool]]) -> None:
    """It is known what is to be compiled: for each kernel, whether it is there."""
    expected.extend(kernels)


def done() -> tuple[int, int] | None:
    """While something is compiled, how many of the kernels that were known to be missing are there, and of how many."""
    return (sum(there() for there in expected), len(expected)) if _depth and expected else None


def begin() -> None:
    """Something begins to compile, perhaps inside something else or beside it."""
    global _depth, _since, _told
    with _lock:
        if _depth == 0:
            _since = time.perf_counter()
        _depth += 1
        first, _told = not _told, True
    if first and tell is not None:
        tell(note())


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
