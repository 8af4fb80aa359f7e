"""The processors that there are for this process."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """How many cores this process may run on: of the machine's, those that it is not kept away from."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
