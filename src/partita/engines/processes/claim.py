"""A piece of work that several processes may begin, and one should do: the others wait for it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # not on this system: every process does the work itself
    fcntl = None  # type: ignore[assignment]

#: Seconds between two looks at whether the work is done.
_LOOK_S = 0.05


class Claim:
    """Who holds a claim on a file does the work that it stands for; the system drops it when the process ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held: IO[Any] | None = None

    def take(self, most_s: float) -> bool:
        """Take the claim; whether another process had it meanwhile, so that its work may be done.

        After ``most_s`` seconds, or where there can be no claims, the work is begun without one.
        """
        if self._held is not None or fcntl is None:
            return False
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            stream = self.path.open("wb")
        except OSError:
            return False
        until, waited = time.monotonic() + most_s, False
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waited = True
            except OSError:
                # Not every file system has claims.
                break
            else:
                self._held = stream
                return waited
            if time.monotonic() > until:
                break
            time.sleep(_LOOK_S)
        stream.close()
        return waited

    def drop(self) -> None:
        """Let others do it, or see that it is done."""
        if self._held is not None:
            with contextlib.suppress(OSError):
                self._held.close()
            self._held = None
