"""A search in a worker thread, watched from the thread that was asked: the clock, Ctrl-C and progress stay alive."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor

#: Seconds between two looks at the search.
POLL_S = 0.02


def run_in_background(incumbent: Incumbent[Any], monitor: Monitor, work: Callable[[], object]) -> None:
    """Run ``work`` in a thread until it ends, or is told to stop; what it finds is in ``incumbent``.

    ``incumbent.stop`` is raised when the run should end, and ``work`` returns soon after that. ``monitor``, the clock
    and the stop button, gets a report of every better answer and bound, and at the end the counters of the incumbent.

    Raises
    ------
    BaseException
        What ``work`` or the caller's progress callback raised, after the thread has ended; a second Ctrl-C, too.
    """
    failure: list[BaseException] = []
    done = threading.Event()

    def target() -> None:
        try:
            work()
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=target, name="partita-search", daemon=True)
    thread.start()
    try:
        while not done.wait(POLL_S):
            _report(incumbent, monitor)
            if monitor.stopping:
                incumbent.end()
    finally:
        incumbent.end()
        thread.join()
    if failure:
        raise failure[0]
    _report(incumbent, monitor)
    monitor.statistics.counters.update(incumbent.counters)


def _report(incumbent: Incumbent[Any], monitor: Monitor) -> None:
    value, _, bound = incumbent.snapshot()
    monitor.report(
        objective=None if math.isinf(value) else value,
        bound=None if incumbent.infeasible or bound <= 0 or math.isinf(bound) else bound,
    )
