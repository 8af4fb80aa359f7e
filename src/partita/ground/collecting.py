"""How often Python looks for objects that refer to each other and to which nobody else refers.

A model is some million small objects, which stay: looking through them after every few hundred new ones takes more than
half of the time of planning a large one, and finds next to nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
from collections.abc import Iterator

#: New objects before the youngest are looked through, how often that is before the middle ones are, and these before
#: all; Python's own are 700, 10 and 10.
RARELY = (1_000_000, 10, 100)


def collect_rarely() -> None:
    """From now on, in a process of partita's own, which ends without a last look: the system gets all of it anyway."""
    gc.set_threshold(*RARELY)
    atexit.register(_end_without)


def _end_without() -> None:
    gc.disable()
    gc.freeze()


@contextlib.contextmanager
def collecting_rarely() -> Iterator[None]:
    """While this is open, in somebody else's process, unless that looks more rarely or never."""
    before = gc.get_threshold()
    if 0 < before[0] < RARELY[0]:
        gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
