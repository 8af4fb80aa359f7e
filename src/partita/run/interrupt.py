"""Ctrl-C as a request to stop with the best answer so far."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from partita.run.monitor import Monitor


@contextlib.contextmanager
def interruptible(monitor: Monitor) -> Iterator[None]:
    """Turn the first Ctrl-C into a request to stop with the best plan; a second one raises KeyboardInterrupt.

    Asked to stop is the whole run that ``monitor`` may be a part of.
    """
    # A handler that is not Python could not be put back.
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    run = monitor
    while run.whole is not None:
        run = run.whole

    def handler(number: int, frame: object) -> None:
        if run.interrupted:
            raise KeyboardInterrupt
        run.interrupt()

    try:
        previous = signal.signal(signal.SIGINT, handler)
    except ValueError:
        # Another interpreter holds the main thread (embedded Python): leave its handling alone.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
