"""The clock, the stop button and the history of a run, and of a part of one. Compiling stops the clock."""

from __future__ import annotations

import math
import threading
import time

from partita.engines.search import compiling
from partita.engines.search.result import Event, Progress, Statistics, StopReason, relative_gap


class Monitor:
    """The clock, the history and the stop button of one run.

    Parameters
    ----------
    time_limit_s
        Wall time after which ``stopping`` turns true, but for what is spent compiling; None for no limit.
    progress
        Called with every new event.
    target
        Stop as soon as a plan at most this good is known.
    whole
        The run that this one is a part of: when that stops, this one does, too.
    """

    def __init__(
        self,
        time_limit_s: float | None = None,
        progress: Progress | None = None,
        target: float | None = None,
        *,
        whole: Monitor | None = None,
    ) -> None:
        self.started = time.perf_counter() - compiling.spent_s()
        self.time_limit_s = time_limit_s
        self.progress = progress
        self.target = target
        self.whole = whole
        #: Of objectives and bounds, which the problem at hand says.
        self.unit: str = "s" if whole is None else whole.unit
        self.statistics = Statistics()
        self.objective: float | None = None
        self.bound: float | None = None
        self._interrupted = False
        self._lock = threading.RLock()

    def part(
        self, seconds: float | None = None, progress: Progress | None = None, *, target: float | None = None
    ) -> Monitor:
        """A part of this run with a clock and a history of its own; it takes at most what is left of the whole."""
        left = min(math.inf if seconds is None else seconds, self.remaining_s)
        return Monitor(None if math.isinf(left) else left, progress, target, whole=self)

    def share(self, fraction: float, most_s: float = math.inf, progress: Progress | None = None) -> Monitor:
        """A part that takes a fraction of what is left of this run, and at most so long."""
        return self.part(min(most_s, fraction * self.remaining_s), progress)

    @property
    def elapsed_s(self) -> float:
        """Wall time since the run began, without what was spent compiling."""
        return time.perf_counter() - compiling.spent_s() - self.started

    @property
    def remaining_s(self) -> float:
        """Wall time left, infinite without a limit, never negative."""
        return math.inf if self.time_limit_s is None else max(0.0, self.time_limit_s - self.elapsed_s)

    def interrupt(self) -> None:
        """Ask the run to stop with the best it has."""
        self._interrupted = True

    @property
    def interrupted(self) -> bool:
        """Whether ``interrupt`` was called, on this or on the whole that it is a part of."""
        return self._interrupted or (self.whole is not None and self.whole.interrupted)

    @property
    def stopping(self) -> bool:
        """Whether the run should return what it has."""
        if self._interrupted or self.remaining_s <= 0.0 or self.target_reached:
            return True
        return self.whole is not None and self.whole.stopping

    @property
    def target_reached(self) -> bool:
        """Whether a plan as good as the target is known."""
        return self.target is not None and self.objective is not None and self.objective <= self.target

    @property
    def gap(self) -> float | None:
        """(objective − bound) / objective, None while either is unknown."""
        return relative_gap(self.objective, self.bound)

    def stop_reason(self, *, proved: bool = False) -> StopReason:
        """Why a run that returns now ends."""
        if proved:
            return StopReason.PROVED
        if self.interrupted:
            return StopReason.INTERRUPTED
        if self.target_reached:
            return StopReason.TARGET_REACHED
        return StopReason.TIME_LIMIT if self.remaining_s <= 0.0 else StopReason.FINISHED

    def report(self, *, objective: float | None = None, bound: float | None = None, note: str = "") -> None:
        """Record a better objective or a better bound, from any thread; what is no better is ignored unless noted."""
        with self._lock:
            better = objective is not None and (self.objective is None or objective < self.objective)
            tighter = bound is not None and (self.bound is None or bound > self.bound)
            if better:
                self.objective = objective
            if tighter:
                self.bound = bound
            if not (better or tighter or note):
                return
            event = Event(self.elapsed_s, self.objective, self.bound, note, self.unit)
            self.statistics.events.append(event)
            if self.progress is not None:
                self.progress(event)
