"""The anatomy: what a problem has to bring so that it can be solved, bounded, compared, swept, read, written and shown.

A problem is a package under ``partita.problems`` with one descriptor, a ``Kind``, which stands in the list in
``partita.problems``. Everything above that package works through this descriptor and knows no problem by name.
What is heavy (solvers, files, reports) is imported by the property that is asked for it.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound, Result, Worth
from partita.problems.outcome import Outcome
from partita.problems.settings import settings_of

if TYPE_CHECKING:
    from partita.problems.facets.files import Files
    from partita.problems.facets.model import FromModel
    from partita.problems.facets.replicas import Replicas
    from partita.problems.facets.report import Report
    from partita.problems.facets.stages import FromResult, Stages
    from partita.problems.facets.sweep import Sweep
    from partita.problems.facets.timeline import TimeLine


#: A memory this full may have shaped the plan.
NEARLY_FULL = 0.8


class Stated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A problem: a validated value that can be written as JSON; a problem adds its own fields.

    ``format`` and ``version`` name its file format, ``kind`` the entry of ``partita.problems`` that it belongs to.

    Attributes
    ----------
    name
        For people and result files.
    unit
        Time unit of all its times and of the objective.
    notes
        What a reader should know about how it was made.
    """

    kind: ClassVar[str]
    format: ClassVar[str]
    version: ClassVar[int] = 1

    name: str
    unit: str = "s"
    notes: tuple[str, ...] = ()


P = TypeVar("P", bound=Any)
L = TypeVar("L", bound=Any)
E = TypeVar("E", bound=Worth)
ContraP = TypeVar("ContraP", contravariant=True)
ContraO = TypeVar("ContraO", contravariant=True)
CoL = TypeVar("CoL", covariant=True)


#: Seeds are 0 to this: what every generator of random numbers and every MIP backend takes.
MOST_SEED = 2**31 - 1


class SearchOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every search may use; a problem adds its own fields.

    Attributes
    ----------
    seed
        Same seed, same answer, when the clock is not what stops the run; 0 to ``MOST_SEED``.
    threads
        Most threads to use at once.
    """

    seed: int = 0
    threads: int = 2


class Component(Protocol):
    """What is listed of a problem: a way to make plans or to prove something about them."""

    @property
    def name(self) -> str:
        """Name on the command line."""

    @property
    def summary(self) -> str:
        """One line: what it does or uses, and what it ignores."""


class Solver(Component, Protocol[ContraP, CoL, ContraO]):
    """One way to make a plan, a solver or a baseline; on ``monitor.stopping`` it returns the best it has."""

    @property
    def argument(self) -> str:
        """By which argument what it proves holds, in one sentence; empty for what proves nothing."""
        return ""

    def supports(self, problem: ContraP, options: ContraO) -> str | None:
        """None if it can work on this, otherwise what does not fit and what to use instead."""
        return None

    def solve(self, problem: ContraP, options: ContraO, monitor: Monitor) -> Outcome[CoL]:
        """Run until done, or until ``monitor.stopping``."""


class BoundMethod(Component, Protocol[ContraP]):
    """One way to prove that no plan is better than a value."""

    @property
    def argument(self) -> str:
        """By which argument it holds, in one sentence."""
        return ""

    @property
    def scope(self) -> str:
        """The plans it holds for, in the words of the problem; empty for all."""
        return ""

    def supports(self, problem: ContraP) -> str | None:
        """None if it applies, otherwise what does not fit."""
        return None

    def bound(self, problem: ContraP, monitor: Monitor) -> Bound:
        """The bound on the original problem; infinite only if the problem is proven infeasible."""


@dataclass(frozen=True)
class Generator:
    """A family of random problems, or a simpler form of any problem of the kind.

    Attributes
    ----------
    name, help
        On the command line.
    settings
        A declaration of settings; a family's ``seed`` says which problem.
    make
        From an instance of it to the problem; of a simpler form, called with the other problem before that.
    """

    name: str
    help: str
    settings: type[msgspec.Struct]
    make: Callable[..., Any]


@dataclass(frozen=True)
class Proof:
    """What was proven, and by whom.

    Attributes
    ----------
    best
        The largest bound.
    methods
        What was proven by the end of each method (its own bound, for a search), with the time of the method alone.
    objective
        Of the best plan that was met, None for none.
    infeasible
        Whether there is no plan at all; then ``best`` is infinite.
    """

    best: Bound
    methods: tuple[Bound, ...]
    objective: float | None = None
    infeasible: bool = False


class _Lazy:
    """An attribute that is imported when it is asked for; a class is called with what the attribute is of."""

    def __init__(self, home: str) -> None:
        self.home = home

    def __get__(self, owner: Any, kind: type[Any]) -> Any:
        found = resolve_name(self.home)
        return found(owner) if isinstance(found, type) else found


def lazy(home: str) -> Any:
    """An attribute of a descriptor that is heavy to import: ``module:name``."""
    return _Lazy(home)


class Kind(Generic[P, L, E]):
    """A problem, as the conductor, the command line and the contract tests see it: P problem, L plan, E evaluation.

    A problem's package derives its descriptor from this and says what differs from what is usual. Left to say are
    ``summary``, ``problem``, ``plan``, ``solvers``, ``usual_solver`` and ``evaluate``.

    Attributes
    ----------
    summary
        One line: what is minimised.
    verb
        The subcommand that takes files of this problem and no others; empty where ``solve`` is enough.
    problem, plan
        The types; for the problem's see ``Stated``.
    options
        What a search may be asked for: a declaration of settings (``partita.problems.settings``).
    baseline_time_s
        Wall time that one baseline gets; most take a moment.
    solvers, bounds, baselines
        The visible lists: ways to search, bounds cheapest first, what people do by hand.
    usual_solver
        Name of the solver that is used unless another one is named, where ``default_solver`` does not say it.
    model
        How a model on a cluster becomes a problem; None if it does not.
    files, report, sweep
        Plans in files; tables and sentences for people; what can be swept, and which points relax which. Classes: they
        are made with this descriptor when they are asked for.
    timeline
        What happens when a plan runs; a class, like those.
    stages
        What plans ask of physical devices; None where plans are not made of stages.
    replicas
        How numbers of stages and replicas are searched; None where they are not.
    from_result
        How a plan of stages on a topology becomes a problem; None if it does not.
    generators, converter
        Families of random problems; a simpler form of any problem, None for none.
    samples
        Small problems that between them reach every compiled loop; those of a group reach much the same ones.
    """

    summary: str
    verb: str = ""
    problem: type[P]
    plan: type[L]
    options: type[SearchOptions] = SearchOptions
    baseline_time_s: float = 10.0

    solvers: Sequence[Solver[P, L, Any]] = ()
    usual_solver: str
    bounds: Sequence[BoundMethod[P]] = ()
    baselines: Sequence[Solver[P, L, Any]] = ()
    model: FromModel[P] | None = None
    files: Files[P, L, E] = lazy("partita.problems.facets.files:Files")
    report: Report[P, L, E] = lazy("partita.problems.facets.report:Report")
    sweep: Sweep[P, L] = lazy("partita.problems.facets.sweep:Sweep")
    timeline: TimeLine[P, L, E] = lazy("partita.problems.facets.timeline:TimeLine")
    stages: Stages[P, L, E] | None = None
    replicas: Replicas[P, L] | None = None
    from_result: FromResult[P] | None = None
    generators: Sequence[Generator] = ()
    converter: Generator | None = None
    samples: Sequence[Sequence[P]] = ()

    @property
    def name(self) -> str:
        """In listings and in ``--problem``: the ``kind`` of the problem's type."""
        return str(self.problem.kind)

    @functools.cached_property
    def changes(self) -> type[msgspec.Struct]:
        """What may be changed of a stated problem: a declaration of settings, each None or false for no change.

        Unless stated, those fields of the problem's type that are settings themselves.
        """
        entries = settings_of(self.problem).values()
        fields = [(entry.name, Annotated[entry.type | None, entry], None) for entry in entries]
        return msgspec.defstruct("Changes", fields, frozen=True, kw_only=True, forbid_unknown_fields=True)

    @property
    def declarations(self) -> tuple[type[msgspec.Struct], ...]:
        """What may be asked of a search, of the pricing if models become such problems, and changed of the problem."""
        return self.options, *(() if self.model is None else (self.model.pricing,)), self.changes

    def of(self, problem: P) -> Kind[P, L, E]:
        """The descriptor that knows a problem's value: this one, unless problems of this name differ in their rooms."""
        return self

    @property
    def title(self) -> str:
        """What its problems are called in messages."""
        return f"{self.name} problems"

    @property
    def parts(self) -> Sequence[Kind[P, L, E]]:
        """The descriptors that ``of`` chooses from."""
        return (self,)

    def default_solver(self, problem: P, options: Any) -> str:
        """Name of the solver for a problem if none is named."""
        return self.usual_solver

    def solver(self, name: str) -> Solver[P, L, Any]:
        """One of the solvers by its name; KeyError if there is none."""
        return {solver.name: solver for solver in self.solvers}[name]

    def baselines_of(self, problem: P) -> Sequence[Solver[P, L, Any]]:
        """The baselines that are beside a problem's plan: all of the list."""
        return self.baselines

    # What a plan is worth.

    @abstractmethod
    def evaluate(self, problem: P, plan: L) -> E:
        """Objective and feasibility, from the problem alone: the only place where they are defined."""

    def complete(self, problem: P, plan: L) -> L:
        """A plan with everything decided that baselines may leave open."""
        return plan

    def keeps(self, problem: P, evaluation: E, options: Any) -> str | None:
        """What of that which was asked for a plan does not keep; None if it keeps all."""
        return None

    def asked(self, plan: L, options: Any) -> L:
        """A plan that ``keeps`` has nothing against, marked as an answer to what was asked for."""
        return plan

    # What is proven.

    def argument(self, method: str) -> str:
        """By which argument a bound or solver proves what it proves; empty if there is none of that name."""
        arguments = {component.name: component.argument for component in self.solvers}
        return (arguments | {component.name: component.argument for component in self.bounds}).get(method, "")

    def certify(self, problem: P, bound: Bound) -> msgspec.Struct | None:
        """A compact certificate that shows a bound's value, made after the proof, in a moment; None for none known."""
        return None

    def scope(self, options: Any) -> str:
        """The scope of a proof about the plans that were asked for; empty for all plans."""
        return ""

    def covers(self, scope: str, options: Any) -> bool:
        """Whether what is proven for a scope holds for the plans that were asked for, as what holds for all does."""
        return scope in ("", self.scope(options))

    def prove(self, problem: P, monitor: Monitor) -> Proof | None:
        """A bound by all means together; None to run the listed bounds and the default solver one after the other."""
        return None

    def explain_infeasible(
        self, problem: P, solver: Solver[P, L, Any], options: Any, time_limit_s: float = math.inf
    ) -> str:
        """Why there is no plan, and what would be enough; takes some seconds, and at most those given."""
        return "no plan satisfies every constraint"

    # Other problems.

    def change(self, problem: P, changes: Any) -> P:
        """The problem with what ``changes``, an instance of that type, asks for: by default, fields of those names."""
        stated = {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not None}
        changed: P = msgspec.structs.replace(problem, **stated)
        return changed

    def unlimited(self, problem: P, evaluation: E) -> P | None:
        """The problem without the limit that may have shaped the plan; None if none is nearly reached."""
        return None


AnyKind = Kind[Any, Any, Any]
AnyResult = Result[Any, Any, Any]
