"""What children of the tests of this folder run, in the way that they are asked to."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any, NoReturn

from partita.engines.processes.serving import Request, serve
from partita.ground.errors import InputError, MissingExtraError
from partita.ground.registry import given


def main() -> NoReturn:
    """Serve, with a thread that listens."""
    serve(_work)


def forking() -> NoReturn:
    """Serve without."""
    serve(_work, forks=True)


def _work(request: Request) -> Any:
    way, *more = request.content
    return WAYS[way](request, *more)


def _refuse(request: Request) -> NoReturn:
    raise InputError("3 stages are too many")


def _lack(request: Request) -> NoReturn:
    raise MissingExtraError("torch", "torch")


def _write(request: Request, lines: int) -> str:
    for line in range(lines):
        print(f"{line:>100}", file=sys.stderr if line % 2 else sys.stdout)
    return "written"


def _hang(request: Request) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    request.tell("deaf", os.getpid())
    time.sleep(600)


def _descend(request: Request) -> None:
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    request.tell("child", pid)
    time.sleep(600)


def _count(request: Request) -> list[tuple[Any, ...]]:
    """Words that come within a while."""
    request.tell("ready")
    heard: list[tuple[Any, ...]] = []
    until = time.monotonic() + 60
    while (not heard or heard[-1] != ("enough",)) and time.monotonic() < until:
        heard += request.heard()
        time.sleep(0.01)
    return heard


def _garble(request: Request) -> None:
    request._out.write(b"\x03" + 7 * b"\x00" + b"???")
    request._out.flush()
    time.sleep(600)


def _complain(request: Request, number: int) -> None:
    print("the licence has run out", file=sys.stderr, flush=True)
    os._exit(number)


WAYS: dict[str, Any] = {
    "square": lambda request, value: value * value,
    "refuse": _refuse,
    "lack": _lack,
    "leave": lambda request: sys.exit(5),
    "unpicklable": lambda request: lambda: None,
    "signal": lambda request, number: os.kill(os.getpid(), number),
    "complain": _complain,
    "write": _write,
    "hang": _hang,
    "descend": _descend,
    "count": _count,
    "garble": _garble,
    "known": lambda request: [one.component.name for one in given()],
    "variables": lambda request: (dict(os.environ), sys.path, sys.flags.safe_path),
}
