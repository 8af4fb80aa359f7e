"""Children that are kept for the next who asks, because starting one takes longer than many an answer."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from partita.engines.processes.child import Child
from partita.ground.errors import ProcessError

#: Most children without work that are kept of one sort.
MOST_IDLE = 2

#: Children without work, by sort.
IDLE: dict[str, list[Child]] = {}
_lock = threading.Lock()


@contextmanager
def kept_child(sort: str, module: str, lost: Callable[[str, str], ProcessError]) -> Iterator[Child]:
    """A child as ``Child`` makes it, one without work if there is one of the sort.

    It is kept afterwards if it has answered; else it is ended, as it is if an error leaves the block.
    """
    child = _take(sort, module, lost)
    kept = False
    try:
        yield child
        with _lock:
            idle = IDLE.setdefault(sort, [])
            kept = child.answered and len(idle) < MOST_IDLE
            if kept:
                idle.append(child)
    finally:
        if not kept:
            child.end()


def _take(sort: str, module: str, lost: Callable[[str, str], ProcessError]) -> Child:
    while True:
        with _lock:
            idle = IDLE.get(sort)
            child = idle.pop() if idle else None
        if child is None:
            return Child(module, lost)
        if child.free:
            return child
        child.end()


def _end_idle() -> None:
    for children in IDLE.values():
        for child in children:
            child.end()


def _forget() -> None:
    """After a fork: the children are the other process's, and so may be the lock."""
    global _lock
    _lock = threading.Lock()
    IDLE.clear()


atexit.register(_end_idle)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
