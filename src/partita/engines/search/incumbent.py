"""The best answer of a run so far and the best bound, together: every thread of a search works on one of these.

An answer and a claim that contradict each other by more than rounding raise ``DisagreementError``: a defect.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from partita.engines.search.result import relative_gap
from partita.ground.errors import DisagreementError
from partita.ground.rounding import CLOSE, TOLERANCE

AnswerT = TypeVar("AnswerT")


def agreed(bound: float, value: float, by: str) -> float:
    """A claimed lower bound beside the value of a known answer: never above it.

    Bounds are rounded down and evaluators sum in another order, so that the two may differ by the rounding of one sum:
    less than ``TOLERANCE``, relative to the value. More than that is a wrong proof.
    """
    if not bound <= value + TOLERANCE * abs(value):
        raise DisagreementError(f"{by or 'a proof'} claims bound {bound!r} above the known objective {value!r}")
    return min(bound, value)


class Incumbent(Generic[AnswerT]):
    """The best answer, its value and the best bound of one search, behind one lock.

    Worker threads call ``offer``, ``prove`` and ``refute``; other threads read ``snapshot``, or an attribute where one
    value is enough, and set none. Compiled kernels poll ``stop``: any value but 0 asks them to return soon.

    Parameters
    ----------
    closeness
        Relative distance of value and bound at which the search is over.

    Attributes
    ----------
    value, answer
        The best answer and its objective; infinite and None while there is none.
    bound
        The best proven bound, 0 for none: every objective is at least that. Infinite if there is no answer.
    stop
        (1,) the flag that kernels poll.
    found_by, proven_by
        Who found the best answer, and who proved the best bound.
    counters
        Of the search, for the statistics.
    on_better, on_bound
        Called outside the lock with every better (value, answer, by) and (bound, by).
    """

    def __init__(self, *, closeness: float = CLOSE) -> None:
        self.closeness = closeness
        self.stop: npt.NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self.found_by = self.proven_by = ""
        self.counters: dict[str, float] = {}
        self.on_better: Callable[[float, AnswerT, str], None] | None = None
        self.on_bound: Callable[[float, str], None] | None = None
        self.value, self.bound = math.inf, 0.0
        self.answer: AnswerT | None = None
        self._lock = threading.RLock()

    @property
    def infeasible(self) -> bool:
        """Whether it is proven that there is no answer."""
        return math.isinf(self.bound)

    @property
    def closed(self) -> bool:
        """Whether nothing is left to prove."""
        with self._lock:
            gap = relative_gap(self.value, self.bound)
            return self.infeasible or (not math.isinf(self.value) and gap is not None and gap <= self.closeness)

    @property
    def done(self) -> bool:
        """Whether to end: nothing is left to prove, or the search is told to stop."""
        return bool(self.stop[0] != 0) or self.closed

    def end(self) -> None:
        """Ask all threads of the search to return soon."""
        self.stop[0] = 1

    def snapshot(self) -> tuple[float, AnswerT | None, float]:
        """Value, answer and bound, all of the same moment."""
        with self._lock:
            return self.value, self.answer, self.bound

    def offer(self, value: float, answer: AnswerT, by: str = "") -> bool:
        """Take an answer if it is better than the best; whether it was."""
        value = float(value)
        with self._lock:
            if not value < self.value:
                return False
            if self.infeasible:
                raise DisagreementError(f"{by or 'a search'} has a plan of {value!r}, and there is proven to be none")
            self.bound = agreed(self.bound, value, self.proven_by)
            self.value, self.answer, self.found_by = value, answer, by
        if self.on_better is not None:
            self.on_better(value, answer, by)
        return True

    def prove(self, bound: float, by: str = "") -> bool:
        """Raise the bound if this one is better; whether it was. An infinite one says that there is no answer."""
        # Kernels and backends give numbers of numpy, which no file can hold.
        bound = float(bound)
        with self._lock:
            bound = agreed(bound, self.value, by)
            if not bound > self.bound:
                return False
            self.bound, self.proven_by = bound, by
        if self.on_bound is not None:
            self.on_bound(bound, by)
        return True

    def refute(self, by: str = "") -> None:
        """Say that there is no answer at all."""
        value, answer, _ = self.snapshot()
        if answer is not None:
            raise DisagreementError(f"{by or 'a proof'} claims that there is no plan, and one has {value!r}")
        self.prove(math.inf, by)
