"""How processes end and stop, said and brought about."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time

_PR_SET_PDEATHSIG = 1


class Watched:
    """A child of this process, by its id, where the system has POSIX's processes."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        #: Its exit status, minus the signal that ended it; None as long as it runs.
        self.status: int | None = None
        self._stopped: float | None = None

    def look(self) -> None:
        """Note what has befallen it since the last look."""
        while self.status is None:
            found, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if not found:
                return
            if os.WIFSTOPPED(status):
                self._stopped = self._stopped or time.monotonic()
            elif os.WIFCONTINUED(status):
                self._stopped = None
            else:
                self.status = os.waitstatus_to_exitcode(status)

    @property
    def stopped_s(self) -> float:
        """Seconds for which a signal has stopped it; 0 if none has."""
        return 0.0 if self._stopped is None or self.status is not None else time.monotonic() - self._stopped

    def hanging(self) -> str:
        """What is said of one that is stopped for too long."""
        return f"hangs: it is stopped by a signal, for {self.stopped_s:.0f} s now"

    def kill(self) -> None:
        """End it, whatever it does, unless it has ended."""
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        """Wait for its end."""
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def how_ended(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def die_with_parent(parent: int) -> None:
    """End this process when its parent ends, whatever it is doing, where the system can do that."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
