"""What a run answers: a plan with its evaluation, a proven bound, and why it stopped."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

__all__ = [
    "OPTIMALITY_GAP",
    "Bound",
    "Event",
    "Monitor",
    "Progress",
    "Result",
    "Statistics",
    "Status",
    "StopReason",
    "relative_gap",
]

#: Relative gap up to which a plan is called optimal.
OPTIMALITY_GAP = 1e-6


class Status(enum.StrEnum):
    """What is proven."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class StopReason(enum.StrEnum):
    """Why the run ended."""

    PROVED = "proved"
    FINISHED = "finished"
    TIME_LIMIT = "time limit"
    INTERRUPTED = "interrupted"
    TARGET_REACHED = "target reached"


@dataclass(frozen=True)
class Bound:
    """A proven lower bound.

    Attributes
    ----------
    value
        No plan of the kind described by ``valid_for`` has a smaller objective.
    method
        The bound's name.
    valid_for
        The contiguity it holds for: ``acyclic`` (acyclic splits only) or ``free`` (any split, so acyclic ones too).
    runtime_s
        Wall time it took.
    """

    value: float
    method: str
    valid_for: str
    runtime_s: float = 0.0


@dataclass(frozen=True)
class Event:
    """One line of a run's history: at ``time_s`` the best objective and bound were these (None while unknown)."""

    time_s: float
    objective: float | None
    bound: float | None
    note: str = ""


Progress = Callable[[Event], None]


@dataclass
class Statistics:
    """The history and counters of a run."""

    events: list[Event] = field(default_factory=list)
    counters: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "events": [
                {"time_s": round(e.time_s, 6), "objective": e.objective, "bound": e.bound, "note": e.note}
                for e in self.events
            ],
            "counters": dict(sorted(self.counters.items())),
        }


class Monitor:
    """The clock, the history and the stop button of one run.

    Parameters
    ----------
    time_limit_s
        Wall time after which ``stopping`` turns true; None for no limit.
    progress
        Called with every new event.
    target
        Stop as soon as a plan at most this good is known.
    """

    def __init__(
        self, time_limit_s: float | None = None, progress: Progress | None = None, target: float | None = None
    ) -> None:
        self.started = time.perf_counter()
        self.time_limit_s = time_limit_s
        self.progress = progress
        self.target = target
        self.statistics = Statistics()
        self.objective: float | None = None
        self.bound: float | None = None
        self._interrupted = False

    @property
    def elapsed_s(self) -> float:
        """Wall time since the run began."""
        return time.perf_counter() - self.started

    @property
    def remaining_s(self) -> float:
        """Wall time left, infinite without a limit, never negative."""
        return float("inf") if self.time_limit_s is None else max(0.0, self.time_limit_s - self.elapsed_s)

    def interrupt(self) -> None:
        """Ask the run to stop with the best it has."""
        self._interrupted = True

    @property
    def interrupted(self) -> bool:
        """Whether ``interrupt`` was called."""
        return self._interrupted

    @property
    def stopping(self) -> bool:
        """Whether the run should return what it has."""
        return self._interrupted or self.remaining_s <= 0.0 or self.target_reached

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
        if self._interrupted:
            return StopReason.INTERRUPTED
        if self.target_reached:
            return StopReason.TARGET_REACHED
        return StopReason.TIME_LIMIT if self.remaining_s <= 0.0 else StopReason.FINISHED

    def report(self, *, objective: float | None = None, bound: float | None = None, note: str = "") -> None:
        """Record a better objective or a better bound; what is no better is ignored unless there is a note."""
        better = objective is not None and (self.objective is None or objective < self.objective)
        tighter = bound is not None and (self.bound is None or bound > self.bound)
        if better:
            self.objective = objective
        if tighter:
            self.bound = bound
        if better or tighter or note:
            event = Event(self.elapsed_s, self.objective, self.bound, note)
            self.statistics.events.append(event)
            if self.progress is not None:
                self.progress(event)


def relative_gap(objective: float | None, bound: float | None) -> float | None:
    """(objective − bound) / objective, at least 0; 0 for a zero objective; None while either is unknown."""
    if objective is None or bound is None:
        return None
    return max(0.0, (objective - bound) / objective) if objective > 0 else 0.0


class HasObjective(Protocol):
    """An evaluation: it has an objective and says whether the plan is feasible."""

    @property
    def objective(self) -> float:
        """The value that is minimised."""
        ...

    @property
    def feasible(self) -> bool:
        """Whether the plan satisfies every constraint."""
        ...


ProblemT = TypeVar("ProblemT")
PlanT = TypeVar("PlanT")
EvaluationT = TypeVar("EvaluationT", bound=HasObjective)


@dataclass(frozen=True)
class Result(Generic[ProblemT, PlanT, EvaluationT]):
    """The answer of a run.

    Attributes
    ----------
    problem
        What was solved.
    plan, evaluation
        The best plan and what it is worth; None if there is none.
    bound
        The best proven bound on the original problem; None if there is none.
    status, stop_reason
        What is proven, and why the run ended: two different things.
    solver, seed, runtime_s
        What ran, from which seed, and its wall time.
    reason
        For an infeasible problem what is missing, otherwise empty.
    statistics
        History and counters.
    """

    problem: ProblemT
    plan: PlanT | None
    evaluation: EvaluationT | None
    bound: Bound | None
    status: Status
    stop_reason: StopReason
    solver: str
    seed: int
    runtime_s: float
    reason: str = ""
    statistics: Statistics = field(default_factory=Statistics)

    @property
    def objective(self) -> float | None:
        """The plan's objective."""
        return None if self.evaluation is None else self.evaluation.objective

    @property
    def gap(self) -> float | None:
        """(objective − bound) / objective."""
        return relative_gap(self.objective, None if self.bound is None else self.bound.value)
