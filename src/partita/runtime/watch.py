"""Watching processes: the first that fails, is killed or hangs ends all, and is named with its stage."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from partita.runtime.job import Failure
from partita.runtime.orders import Process
from partita.runtime.stages import DONE, WAITING

#: Seconds between two looks, and for others to say what happened to them before it.
POLL_S, GRACE_S = 0.05, 1.0


def watch(
    pids: Mapping[int, Process], beats: Sequence[Any], folder: Path, timeout_s: float, stopped_s: float | None = None
) -> Failure | None:
    """Wait for all processes; what went wrong, if anything, after all of them have ended.

    A process hangs if it gets nowhere for ``timeout_s``, or is stopped by a signal for ``stopped_s`` (as long, unless
    stated).
    """
    left = dict(pids)
    ended: dict[int, int] = {}
    stopped: dict[int, float] = {}
    seen: dict[int, tuple[float, float]] = {}
    try:
        while left:
            _collect(left, ended, stopped)
            if any(status for status in ended.values()):
                return _cause(pids, left, ended, folder)
            hanging = _stopped(left, stopped, timeout_s if stopped_s is None else stopped_s)
            hanging = hanging or _hanging(left, beats, seen, timeout_s)
            if hanging is not None:
                # Who waits for a process that is stopped does nothing wrong.
                return _stopped(left, stopped, 0.0) or hanging
            time.sleep(POLL_S)
        return None
    finally:
        end_all(left)


def end_all(pids: Mapping[int, Any]) -> None:
    """Kill processes, whatever they do, and wait for their end."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        os.waitpid(pid, 0)


def _collect(left: dict[int, Process], ended: dict[int, int], stopped: dict[int, float]) -> None:
    """Note which processes have ended, how, and since when others are stopped."""
    for pid in list(left):
        found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        if not found:
            continue
        if os.WIFSTOPPED(status):
            stopped.setdefault(pid, time.monotonic())
        elif os.WIFCONTINUED(status):
            stopped.pop(pid, None)
        else:
            ended[pid] = os.waitstatus_to_exitcode(status)
            del left[pid]


def _stopped(left: Mapping[int, Process], stopped: Mapping[int, float], limit_s: float) -> Failure | None:
    """A process that is stopped for too long."""
    for pid, since in stopped.items():
        if pid in left and (lasts := time.monotonic() - since) >= limit_s:
            message = f"{left[pid].label} hangs: it is stopped by a signal, for {lasts:.0f} s now (process {pid})"
            return Failure(kind="rank", message=message)
    return None


def _cause(pids: Mapping[int, Process], left: dict[int, Process], ended: dict[int, int], folder: Path) -> Failure:
    """The first failure: one that was killed, else the earliest error; others fail because they lose its messages."""
    deadline = time.monotonic() + GRACE_S
    while left and time.monotonic() < deadline and not any(status < 0 for status in ended.values()):
        _collect(left, ended, {})
        time.sleep(POLL_S)
    for pid, status in ended.items():
        if status < 0:
            name = signal.Signals(-status).name
            return Failure(kind="rank", message=f"{pids[pid].label} was killed by {name} (process {pid})")
    notes = []
    for pid in ended:
        path = folder / f"error{pids[pid].number}"
        if path.exists():
            at, line, *rest = path.read_text(encoding="utf-8").split("\n")
            notes.append((float(at), f"{pids[pid].label} failed: {line}", "\n".join(rest)))
    if notes:
        _, message, details = min(notes)
        return Failure(kind="rank", message=message, details=details)
    pid, status = next((pid, status) for pid, status in ended.items() if status)
    return Failure(kind="rank", message=f"{pids[pid].label} ended with status {status} and no word (process {pid})")


def _hanging(
    left: Mapping[int, Process], beats: Sequence[Any], seen: dict[int, tuple[float, float]], timeout_s: float
) -> Failure | None:
    """A process without a sign of life, or at work on one call, for too long; or all waiting for each other."""
    now = time.monotonic()
    stuck = []
    for pid, process in left.items():
        beat = beats[process.number]
        count, since = seen.get(pid, (-1.0, now))
        if beat[0] != count:
            since = now
        seen[pid] = beat[0], since
        if beat[1] == DONE:
            continue
        if beat[2] and now - beat[2] > timeout_s:
            message = f"{process.label} hangs: no sign of life for {now - beat[2]:.0f} s (process {pid})"
            return Failure(kind="rank", message=message)
        if now - since > timeout_s:
            if beat[1] != WAITING:
                message = f"{process.label} hangs: {now - since:.0f} s in one call (process {pid}); see --timeout"
                return Failure(kind="rank", message=message)
            stuck.append(process.label)
    if stuck and len(stuck) == len(left):
        return Failure(kind="rank", message=f"{', '.join(stuck)} wait for each other without end; see --timeout")
    return None
