"""Work done in copies of this process, several at a time, each with limits on its time and memory."""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Seconds between two looks at what the copies use.
_LOOK = 0.2


@dataclass
class Done:
    """What became of one piece of work.

    Attributes
    ----------
    name
        Of the work.
    result
        What it returned; None if it was ended or failed.
    reason
        Why there is no result; empty if there is one.
    seconds
        From its start to its end.
    memory_bytes
        The most that the copy held, with what it shares with this process.
    """

    name: str
    result: Any
    reason: str
    seconds: float
    memory_bytes: int


@dataclass
class _Copy:
    name: str
    process: int
    started: float
    data: bytes = b""
    reason: str = ""


def run_apart(
    work: Callable[[str], Any], names: Iterable[str], *, jobs: int, seconds: float, memory_bytes: int
) -> Iterator[Done]:
    """Call ``work`` on each name in a process of its own and yield results as they come.

    The copies are made by ``fork``: what this process has imported is there at once. What they print is lost. One that
    takes longer than ``seconds`` or holds more than ``memory_bytes`` is killed.
    """
    waiting = list(names)[::-1]
    running: dict[int, _Copy] = {}
    gc.collect()
    # Collections in the copies leave alone, and so unshared, what is here already.
    gc.freeze()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                reading, copy = _start(work, waiting.pop())
                running[reading] = copy
            ready, _, _ = select.select(list(running), [], [], _LOOK)
            for reading in list(running):
                copy = running[reading]
                part = os.read(reading, 1 << 20) if reading in ready else None
                copy.data += part or b""
                if part is None and not _over(copy, seconds, memory_bytes):
                    continue
                if part:
                    continue
                del running[reading]
                os.close(reading)
                yield _ended(copy)
    finally:
        gc.unfreeze()
        for reading, copy in running.items():
            os.close(reading)
            with suppress(ProcessLookupError):
                os.kill(copy.process, signal.SIGKILL)
            os.waitpid(copy.process, 0)


def _start(work: Callable[[str], Any], name: str) -> tuple[int, _Copy]:
    reading, writing = os.pipe()
    started = time.perf_counter()
    process = os.fork()
    if process == 0:
        try:
            os.close(reading)
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            with os.fdopen(writing, "wb") as answer:
                answer.write(pickle.dumps(work(name)))
        finally:
            # Neither handlers nor buffers of the process that this is a copy of.
            os._exit(0)
    os.close(writing)
    return reading, _Copy(name, process, started)


def _over(copy: _Copy, seconds: float, memory_bytes: int) -> bool:
    """Whether a copy is over its limits; it is killed then."""
    if time.perf_counter() - copy.started > seconds:
        copy.reason = f"not done in {seconds:.0f} s"
    elif _resident(copy.process) > memory_bytes:
        copy.reason = f"needs over {memory_bytes >> 30} GiB"
    else:
        return False
    os.kill(copy.process, signal.SIGKILL)
    return True


def _ended(copy: _Copy) -> Done:
    _, status, used = os.wait4(copy.process, 0)
    taken = time.perf_counter() - copy.started
    result, reason = None, copy.reason
    if not reason:
        if copy.data:
            result = pickle.loads(copy.data)
        else:
            reason = f"ended by signal {status & 127}" if status & 127 else "ended without a result"
    return Done(copy.name, result, reason, taken, used.ru_maxrss * 1024)


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0
