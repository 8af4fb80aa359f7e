"""Ctrl-C, and a request to terminate, as requests to stop with the best answer so far."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from partita.engines.search.monitor import Monitor

#: What a terminal sends on Ctrl-C, and what ``timeout``, batch systems and containers send first.
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def interruptible(monitor: Monitor) -> Iterator[None]:
    """Turn the first of ``SIGNALS`` into a request to stop with the best plan; a second one raises KeyboardInterrupt.

    Asked to stop is the whole run that ``monitor`` may be a part of.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    run = monitor
    while run.whole is not None:
        run = run.whole

    def handler(number: int, frame: object) -> None:
        if run.interrupted:
            raise KeyboardInterrupt
        run.interrupt()

    with contextlib.ExitStack() as after:
        for number in SIGNALS:
            previous = signal.getsignal(number)
            # A handler that is not Python could not be put back.
            if previous is None:
                continue
            try:
                signal.signal(number, handler)
            except ValueError:
                # Another interpreter holds the main thread (embedded Python): leave its handling alone.
                break
            after.callback(signal.signal, number, previous)
        yield
