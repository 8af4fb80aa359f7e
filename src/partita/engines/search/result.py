"""What a run answers: a plan with its evaluation, a proven bound, and why it stopped."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Self, TypeVar

import msgspec

from partita.ground.shown import brief


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


class _MadeWhenRead:
    """A field whose value may be given as the function that makes it, which is called when it is read first.

    Certificates take longer to make than small problems to solve, and only files and checks ask for them.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, one: Bound | None, owner: type) -> msgspec.Struct | None:
        if one is None:
            return None  # What a dataclass takes as the default.
        value: msgspec.Struct | Callable[[], msgspec.Struct | None] | None = vars(one)[self.name]
        if callable(value):
            value = vars(one)[self.name] = value()
        return value

    def __set__(self, one: Bound, value: msgspec.Struct | Callable[[], msgspec.Struct | None] | None) -> None:
        vars(one)[self.name] = value


@dataclass(frozen=True, repr=False, eq=False)
class Bound(float):
    """A proven lower bound: the number ``value``, with what is known of it.

    It compares, computes, formats and hashes as the number does, in the problem's unit of time; what is computed from
    it is a plain number. Two bounds are equal if all that is known of them is, a bound and a number if the values are.

    Attributes
    ----------
    value
        No plan within ``scope`` has a smaller objective.
    method
        The bound's name.
    scope
        The plans it holds for, in the words of the problem; empty for all of them.
    runtime_s
        Wall time it took.
    argument
        By which argument it is proven, in one sentence.
    certificate
        What shows it to somebody who trusts no solver (``partita.checker``): a value of its own type, tagged with its
        kind; None where there is none that is compact.
    """

    value: float
    method: str
    scope: str = ""
    runtime_s: float = 0.0
    argument: str = ""
    certificate: _MadeWhenRead = _MadeWhenRead()

    def __new__(cls, value: float, *rest: object, **named: object) -> Self:
        return super().__new__(cls, value)

    def changed(self, **new: object) -> Self:
        """The same with other values of some fields; a certificate that is not made yet still waits for its reader."""
        known: dict[str, Any] = {each.name: vars(self)[each.name] for each in fields(self)}
        return type(self)(**(known | new))

    def _known(self) -> dict[str, Any]:
        """All fields by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __getstate__(self) -> dict[str, Any]:
        return self._known()

    #: As the number, which it may be equal to.
    __hash__ = float.__hash__

    def __eq__(self, other: object) -> bool:
        return self._known() == other._known() if isinstance(other, Bound) else float.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __repr__(self) -> str:
        """Value and method, and what else is known; of a certificate, which may be long, its type."""
        known = {"value": self.value, "method": self.method, "scope": self.scope, "runtime_s": self.runtime_s}
        known["argument"] = self.argument
        shown = [f"{name}={value!r}" for name, value in known.items() if value != ""]
        if self.certificate is not None:
            shown.append(f"certificate={type(self.certificate).__name__}(…)")
        return f"Bound({', '.join(shown)})"

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class Event:
    """One line of a run's history: at ``time_s`` the best objective and bound were these (None while unknown)."""

    time_s: float
    objective: float | None
    bound: float | None
    note: str = ""
    unit: str = "s"  #: Of objective and bound: that of the problem.


Progress = Callable[[Event], None]


@dataclass
class Statistics:
    """The history and counters of a run."""

    events: list[Event] = field(default_factory=list)
    counters: dict[str, float] = field(default_factory=dict)

    __repr__ = brief

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "events": [
                {"time_s": round(one.time_s, 6), "objective": one.objective, "bound": one.bound, "note": one.note}
                for one in self.events
            ],
            "counters": dict(sorted(self.counters.items())),
        }


def relative_gap(objective: float | None, bound: float | None) -> float | None:
    """(objective − bound) / objective, at least 0; 0 for a zero objective; None while either is unknown."""
    if objective is None or bound is None:
        return None
    return max(0.0, (objective - bound) / objective) if objective > 0 else 0.0


class PlanEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is worth; a problem adds its own fields.

    Attributes
    ----------
    objective
        The value that is minimised.
    violations
        Every constraint that the plan does not satisfy, as a sentence.
    """

    objective: float
    violations: tuple[str, ...] = ()

    __repr__ = brief

    @property
    def feasible(self) -> bool:
        """Whether the plan satisfies every constraint."""
        return not self.violations


#: Results are read and never changed: one of a kind of problem is one of problems.
ProblemT = TypeVar("ProblemT", covariant=True)
PlanT = TypeVar("PlanT", covariant=True)
EvaluationT = TypeVar("EvaluationT", bound=PlanEvaluation, covariant=True)


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
    argument
        For an infeasible problem by which argument that is proven, otherwise empty; see ``Bound`` for a bound's.
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
    argument: str = ""
    statistics: Statistics = field(default_factory=Statistics)

    __repr__ = brief

    @property
    def objective(self) -> float | None:
        """The plan's objective."""
        return None if self.evaluation is None else self.evaluation.objective

    @property
    def gap(self) -> float | None:
        """(objective − bound) / objective."""
        return relative_gap(self.objective, None if self.bound is None else self.bound.value)


@dataclass(frozen=True)
class Rival:
    """A plan from anywhere beside that of a run: a baseline's, an expert's, a neighbour's.

    Attributes
    ----------
    name, summary
        Who made it, and what that does and ignores.
    plan, evaluation
        Its plan and what it is worth, feasible or not; None if it made none.
    runtime_s
        Wall time.
    note
        Why there is no plan, or the first thing wrong with it.
    interrupted
        Whether Ctrl-C came while it was made; further ones were left out then.
    """

    name: str
    summary: str
    plan: Any = None
    evaluation: Any = None
    runtime_s: float = 0.0
    note: str = ""
    interrupted: bool = False

    __repr__ = brief

    @property
    def feasible(self) -> bool:
        """Whether there is a plan that keeps every limit."""
        return self.evaluation is not None and bool(self.evaluation.feasible)
