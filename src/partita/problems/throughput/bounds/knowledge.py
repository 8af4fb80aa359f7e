"""What the bounds of the hierarchy tell each other about one problem."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from partita.errors import SolverCrashError
from partita.problems.throughput.bounds.uniform import Uniform

__all__ = ["Charged", "Knowledge"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Charged:
    """Work with transfers charged to it, valid up to a target.

    Every block S that can be part of a split with all loads at most ``target`` has Σ ``work`` over S <= f(S).

    Attributes
    ----------
    target
        Largest objective for which it holds.
    work
        (n,) charged work, at least the work itself.
    first, last
        (n,) earliest and latest block (0 … k − 1) that an item can be in, in such a split.
    forced
        (m,) nets that every such split cuts. Only their cost is in the charged work: for every such block S, Σ ``work``
        over S and the cost of the other nets that S cuts are together at most f(S), too.
    """

    target: float
    work: Floats
    first: Ints
    last: Ints
    forced: npt.NDArray[np.bool_]


@dataclass
class Knowledge:
    """State of one run over the hierarchy; bounds read it and add to it, from any thread.

    Attributes
    ----------
    uniform
        The relaxation that the bounds are about.
    stop
        Asked often; true ends a method, which keeps what it has proven.
    value
        Objective of the best split known, infinite for none: the bounds need not exceed it.
    label
        (n,) block of every item in that split, None for none.
    bound, method
        The best proven bound, and who proved it.
    charged
        The charged work of the largest target so far refuted or tried, None before.
    proven
        (method, value, seconds) of every method's own best, in order of time.
    on_bound, on_split
        Called with every better bound and its method, and with every better split.
    on_note
        Called with what the history of the run should say beside that.
    threads
        Most threads and processes that a method may use at once.
    """

    uniform: Uniform
    stop: Callable[[], bool] = lambda: False
    value: float = math.inf
    label: Ints | None = None
    bound: float = 0.0
    method: str = ""
    charged: Charged | None = None
    proven: list[tuple[str, float, float]] = field(default_factory=list)
    on_bound: Callable[[float, str], None] | None = None
    on_split: Callable[[Ints, float], None] | None = None
    on_note: Callable[[str], None] | None = None
    threads: int = 2
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def closed(self) -> bool:
        """Whether nothing is left to prove (up to rounding)."""
        return self.bound >= self.value * (1 - 1e-7)

    @property
    def done(self) -> bool:
        """Whether to end: closed, or told to stop."""
        return self.closed or self.stop()

    def raise_bound(self, bound: float, method: str) -> None:
        """Report a proven bound; weaker ones than known are ignored.

        A bound above the value of a known split can only be rounding (or the proof that nothing is better).
        """
        with self._lock:
            bound = min(bound, self.value)
            if bound <= self.bound:
                return
            self.bound, self.method = bound, method
        if self.on_bound is not None:
            self.on_bound(bound, method)

    def lose(self, error: SolverCrashError, goes_on: str) -> None:
        """Note that a backend crashed, and what goes on without it; where nobody takes notes it is raised."""
        if self.on_note is None:
            raise error
        self.on_note(f"{error}; {goes_on}")

    def offer(self, label: Ints, value: float) -> None:
        """Report a split, with blocks that do not fall along the order, and its objective."""
        with self._lock:
            if value >= self.value:
                return
            self.value, self.label = value, label.copy()
        if self.on_split is not None:
            self.on_split(label, value)
