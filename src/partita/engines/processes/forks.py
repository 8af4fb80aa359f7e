"""Forks of this process, watched together: the first that fails, is killed or hangs ends all, and is named."""

from __future__ import annotations

import mmap
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from partita.engines.processes.ending import Watched, die_with_parent, how_ended
from partita.engines.processes.replies import Reply, pickled_reply
from partita.ground.errors import ProcessError

#: What a fork says it is doing, for whoever watches.
COMPUTING, WAITING, DONE = 1.0, 2.0, 3.0
#: Seconds between two signs of life; between two looks; and for others to say what happened to them before it.
BEAT_S, POLL_S, GRACE_S = 0.5, 0.05, 1.0
#: Most characters of an error that a message shows.
_MOST_SHOWN = 500
#: Numbers that a fork shows.
_SHOWN = 3


class Fork(Watched):
    """A process forked from this one, which works on one thing, leaves its answer in a file, and ends.

    It ends with the process that it comes from. Nothing of the work may need a thread that runs before the fork. The
    work gets the numbers that the fork shows: how many calls it has made, what it is doing (``COMPUTING``, ``WAITING``
    for others, or ``DONE``), and, which it need not see to, when it last lived. What it hands back is the answer, which
    is to be at ``path``; ``name`` is for messages.
    """

    def __init__(self, name: str, work: Callable[[Any], Any], path: Path) -> None:
        self.name, self.path = name, path
        self.beat: Any = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("d")[:_SHOWN]
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        super().__init__(os.fork())
        if self.pid == 0:
            status = 1
            try:
                die_with_parent(parent)
                self.beat[1] = COMPUTING
                _show_life(self.beat, parent)
                status = _leave_reply(work, self.beat, path)
            finally:
                os._exit(status)

    def reply(self) -> Reply[Any] | None:
        """What it answered; None if it has not."""
        return pickle.loads(self.path.read_bytes()) if self.path.exists() else None


def _show_life(beat: Any, parent: int) -> None:
    """From now on show when this process lived, and end with the parent."""

    def run() -> None:
        while True:
            beat[2] = time.monotonic()
            if os.getppid() != parent:
                os._exit(1)
            time.sleep(BEAT_S)

    threading.Thread(target=run, daemon=True).start()


def _leave_reply(work: Callable[[Any], Any], beat: Any, path: Path) -> int:
    fine, reply = pickled_reply(work, beat)
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(reply)
    os.replace(part, path)
    return 0 if fine else 1


def watch(
    forks: Sequence[Fork],
    timeout_s: float,
    stopped_s: float | None = None,
    *,
    remedy: str = "",
    lost: type[ProcessError] = ProcessError,
) -> list[Any]:
    """Wait for all forks; what they answer, in order. All have ended afterwards, whatever happens.

    A fork hangs if it gets nowhere for ``timeout_s``, or is stopped by a signal for ``stopped_s`` (as long, unless
    stated); ``remedy`` ends messages about the former.

    Raises ``ProcessError``: as ``lost`` is one, if a fork fails, is killed or hangs; the message names the first, the
    error's note has its traceback.
    """
    limit_s = timeout_s if stopped_s is None else stopped_s
    seen: dict[int, tuple[float, float]] = {}
    try:
        while True:
            left = _left(forks)
            if any(fork.status for fork in forks):
                raise _cause(forks, lost)
            if not left:
                return [_value(fork, lost) for fork in forks]
            if hanging := _stopped(left, limit_s) or _getting_nowhere(left, seen, timeout_s, remedy):
                # Who waits for a fork that is stopped does nothing wrong.
                raise lost(_stopped(left, 0.0) or hanging)
            time.sleep(POLL_S)
    finally:
        end_all(forks)


def end_all(forks: Sequence[Fork]) -> None:
    """Kill forks, whatever they do, and wait for their end."""
    for fork in forks:
        fork.kill()
    for fork in forks:
        fork.wait()


def _left(forks: Sequence[Fork]) -> list[Fork]:
    """Those that run."""
    for fork in forks:
        fork.look()
    return [fork for fork in forks if fork.status is None]


def _value(fork: Fork, lost: type[ProcessError]) -> Any:
    reply = fork.reply()
    if reply is None:
        raise lost(_silent(fork))
    return reply.get()


def _silent(fork: Fork) -> str:
    return f"{fork.name} {how_ended(fork.status or 0)} and no word (process {fork.pid})"


def _cause(forks: Sequence[Fork], lost: type[ProcessError]) -> ProcessError:
    """The first failure: one that was killed, else the earliest error; others fail because they lose its messages."""
    deadline = time.monotonic() + GRACE_S
    while _left(forks) and time.monotonic() < deadline and all((fork.status or 0) >= 0 for fork in forks):
        time.sleep(POLL_S)
    ended = [fork for fork in forks if fork.status]
    for fork in ended:
        if fork.status is not None and fork.status < 0:
            return lost(f"{fork.name} {how_ended(fork.status)} (process {fork.pid})")
    errors = [(reply, fork) for fork in ended if (reply := fork.reply()) is not None]
    if not errors:
        return lost(_silent(ended[0]))
    reply, fork = min(errors, key=lambda entry: entry[0].at)
    error = lost(f"{fork.name} failed: {reply.said[:_MOST_SHOWN]}")
    error.add_note(reply.where)
    return error


def _stopped(left: Sequence[Fork], limit_s: float) -> str:
    """A fork that is stopped for too long; empty if there is none."""
    for fork in left:
        if 0.0 < fork.stopped_s >= limit_s:
            return f"{fork.name} {fork.hanging()} (process {fork.pid})"
    return ""


def _getting_nowhere(left: Sequence[Fork], seen: dict[int, tuple[float, float]], timeout_s: float, remedy: str) -> str:
    """A fork without a sign of life, or at work on one call, for too long; or all waiting for each other."""
    now = time.monotonic()
    stuck = []
    for fork in left:
        calls, doing, lived = fork.beat
        count, since = seen.get(fork.pid, (-1.0, now))
        since = since if calls == count else now
        seen[fork.pid] = calls, since
        if doing == DONE:
            continue
        if lived and now - lived > timeout_s:
            return f"{fork.name} hangs: no sign of life for {now - lived:.0f} s (process {fork.pid})"
        if now - since > timeout_s:
            if doing != WAITING:
                return f"{fork.name} hangs: {now - since:.0f} s in one call (process {fork.pid}){remedy}"
            stuck.append(fork.name)
    if stuck and len(stuck) == len(left):
        return f"{', '.join(stuck)} wait for each other without end{remedy}"
    return ""
