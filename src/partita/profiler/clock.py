"""Times of what a device does: a processor's own clock, or events in a GPU's queue."""

from __future__ import annotations

import time
from typing import Any

import torch

from partita.inside.torch_inside import keep_gpu_busy

#: Cycles that a GPU waits before a pass, so that the program is ahead of it from then on: about a second.
_AHEAD_CYCLES = 1_500_000_000


class CpuClock:
    """Operators run where they are issued.

    On one thread its processor time counts, which other programs on the machine do not lengthen; on several the wall
    clock does.
    """

    def __init__(self, threads: int = 1) -> None:
        self.own_s = 0.0  #: What timing one operator adds to its time.
        self._now = time.thread_time_ns if threads == 1 else time.perf_counter_ns

    def begin(self) -> None:
        """A pass begins."""

    def mark(self) -> int:
        """The time now, in the device's order of things."""
        return self._now()

    def between(self, start: int, end: int) -> float:
        """Seconds between two marks; only after ``finish``."""
        return (end - start) * 1e-9

    def finish(self) -> None:
        """Wait until all that was issued is done."""

    def calibrate(self, timed: list[float], plain: list[float]) -> None:
        """Learn ``own_s`` from one small operator, timed and called plainly."""
        self.own_s = max(0.0, sorted(timed)[len(timed) // 2] - sorted(plain)[len(plain) // 2])


class CudaClock:
    """Events between kernels. The GPU begins late, so that it never waits for the program while a pass is timed."""

    own_s = 0.0

    def begin(self) -> None:
        torch.cuda.synchronize()
        keep_gpu_busy(_AHEAD_CYCLES)

    def mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, start: Any, end: Any) -> float:
        return float(start.elapsed_time(end)) * 1e-3

    def finish(self) -> None:
        torch.cuda.synchronize()


Clock = CpuClock | CudaClock
