"""What somebody's own code looks at outside itself: files that it opens, variables of the environment, other processes.

Own code is what is not installed. What an installed package does while it is imported is not its doing.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from partita.frontends.kept.installed import is_installed
from partita.inside.replacing import replaced

#: Events of the interpreter (PEP 578) of code whose answer may be another one next time, whatever files say.
_ELSEWHERE = frozenset(
    {
        *("socket.connect", "socket.getaddrinfo", "urllib.Request", "subprocess.Popen", "os.system", "os.fork"),
        *("os.posix_spawn", "os.exec", "os.remove", "os.rename", "os.mkdir", "glob.glob", "sqlite3.connect"),
    }
)


class Looks:
    """What was looked at: by own code, or by anybody."""

    def __init__(self, anybody: bool) -> None:
        self.anybody = anybody
        #: Files as they were named when they were opened for reading, with their absolute paths.
        self.files: dict[str, str] = {}
        #: Variables as they were when they were first read; None for one that was not there.
        self.environment: dict[str, str | None] = {}
        #: What cannot be looked at again to see whether it is the same.
        self.beyond: set[str] = set()


_looking: list[Looks] = []
_hearing: list[bool] = []


def _by_own_code() -> bool:
    """Whether the caller's caller runs for somebody's own code, and not for an import of something installed."""
    here = inspect.currentframe()
    caller = None if here is None else here.f_back
    frame: FrameType | None = None if caller is None else caller.f_back
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return False
        if not is_installed(file):
            return True
        frame = frame.f_back
    return False


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if not _looking or (event != "open" and event not in _ELSEWHERE):
        return
    own = _by_own_code()
    for looks in _looking:
        if not (own or looks.anybody):
            continue
        if event != "open":
            looks.beyond.add(event)
            continue
        path, mode, flags = arguments
        writes = any(c in mode for c in "wax+") if isinstance(mode, str) else flags & (os.O_WRONLY | os.O_RDWR)
        if writes:
            looks.beyond.add(f"writes {path}")
        elif not isinstance(path, int):
            looks.files.setdefault(os.fsdecode(path), os.path.abspath(os.fsdecode(path)))


class _Environment(MutableMapping[str, str]):
    """The environment, with a list of what was read of it."""

    def __init__(self, environment: MutableMapping[str, str], looks: Looks) -> None:
        self._environment, self._looks = environment, looks

    def __getitem__(self, name: str) -> str:
        if _by_own_code():
            self._looks.environment.setdefault(name, self._environment.get(name))
        return self._environment[name]

    def __setitem__(self, name: str, value: str) -> None:
        self._environment[name] = value

    def __delitem__(self, name: str) -> None:
        del self._environment[name]

    def __iter__(self) -> Iterator[str]:
        if _by_own_code():
            self._looks.beyond.add("reads the whole environment")
        return iter(self._environment)

    def __len__(self) -> int:
        return len(self._environment)

    def copy(self) -> dict[str, str]:
        """As that of ``os.environ``."""
        return dict(self)

    def __getattr__(self, name: str) -> Any:
        # What the environment has beside a mapping: "encodekey" and the like.
        return getattr(self._environment, name)


@contextmanager
def looking(*, anybody: bool = False) -> Iterator[Looks]:
    """Within, what own code looks at is noted, whichever thread runs it; files that ``anybody`` opens, if so.

    Code that has the environment at hand from before, and what is opened from C, is not seen.
    """
    if not _hearing:
        # There is no way to take one away again; it does nothing while nobody looks.
        sys.addaudithook(_hear)
        _hearing.append(True)
    looks = Looks(anybody)
    with replaced((os, "environ", _Environment(os.environ, looks))):
        _looking.append(looks)
        try:
            yield looks
        finally:
            _looking.remove(looks)
