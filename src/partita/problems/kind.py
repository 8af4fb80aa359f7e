"""The anatomy: what a problem has to bring so that it can be solved, bounded, compared, swept, read, written and shown.

A problem is a package under ``partita.problems`` with one descriptor, a ``Kind``, which stands in the list in
``partita.problems``. Everything above that package works through this descriptor and knows no problem by name.
What is heavy (solvers, files, reports) is imported by the property that is asked for it.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Protocol, Self, TypeAlias, TypeVar

import msgspec

from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound, Result
from partita.ground.registry import Added, everything, lacking, leave_out
from partita.ground.shown import brief
from partita.problems.attributes import LISTS, OpenList, declared, lazy, sort_of
from partita.problems.facets import E, L, P
from partita.problems.outcome import CoL, Outcome
from partita.problems.settings import settings_of

if TYPE_CHECKING:
    from partita.nouns.cluster import Cluster
    from partita.nouns.deployment import Deployment
    from partita.problems.facets.files import Files
    from partita.problems.facets.model import FromModel
    from partita.problems.facets.report import Reporting
    from partita.problems.facets.stages import FromResult, Replication, Staging
    from partita.problems.facets.sweep import Sweep
    from partita.problems.facets.timeline import TimeLine


#: A memory this full may have shaped the plan.
NEARLY_FULL = 0.8


class Stated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A problem: a validated value that can be written as JSON; a problem adds its own fields.

    ``format`` and ``version`` name its file format, ``kind`` the entry of ``partita.problems`` that it belongs to.
    """

    kind: ClassVar[str]
    format: ClassVar[str]
    version: ClassVar[int] = 1

    name: str  #: For people and result files.
    unit: str = "s"  #: Time unit of all its times and of the objective.
    notes: tuple[str, ...] = ()  #: What a reader should know about how it was made.

    __repr__ = brief

    def replace(self, **changes: object) -> Self:
        """A copy with changes, validated again; ``InputError`` if a changed value is invalid."""
        return msgspec.structs.replace(self, **changes)


ContraP = TypeVar("ContraP", contravariant=True)
ContraO = TypeVar("ContraO", contravariant=True)


#: Seeds are 0 to this: what every generator of random numbers and every MIP backend takes.
MOST_SEED = 2**31 - 1


class SearchOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every search may use; a problem adds its own fields."""

    seed: int = 0  #: Same seed, same answer, when the clock is not what stops the run; 0 to ``MOST_SEED``.
    threads: int = 2  #: Most threads to use at once.

    @property
    def scope(self) -> str:
        """The plans that are asked for, in the words of the problem; empty for all plans."""
        return ""

    def covers(self, scope: str) -> bool:
        """Whether what is proven for a scope holds for the plans that are asked for, as what holds for all does."""
        return scope in ("", self.scope)

    def unkept(self, evaluation: Any) -> str | None:
        """What of that which is asked for a plan does not keep; None if it keeps all."""
        return None

    def marked(self, plan: Any) -> Any:
        """A plan that keeps all of it, marked as an answer to what was asked for."""
        return plan


class Component(Protocol):
    """What is listed of a problem: a way to make plans or to prove something about them."""

    @property
    def name(self) -> str:
        """Name on the command line."""

    @property
    def summary(self) -> str:
        """One line: what it does or uses, and what it ignores."""

    @property
    def argument(self) -> str:
        """By which argument what it proves holds, in one sentence; empty for what proves nothing."""
        return ""


class Solver(Component, Protocol[ContraP, CoL, ContraO]):
    """One way to make a plan, a solver or a baseline; on ``monitor.stopping`` it returns the best it has."""

    def supports(self, problem: ContraP, options: ContraO) -> str | None:
        """None if it can work on this, otherwise what does not fit and what to use instead."""
        return None

    def solve(self, problem: ContraP, options: ContraO, monitor: Monitor) -> Outcome[CoL]:
        """Run until done, or until ``monitor.stopping``."""


class BoundMethod(Component, Protocol[ContraP]):
    """One way to prove that no plan is better than a value."""

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
class ProblemFamily:
    """A family of random problems, or a simpler form of any problem of the kind, with name and help for people.

    ``settings`` is a declaration of settings; a family's ``seed`` says which problem. ``make`` makes the problem from
    an instance of it; that of a simpler form (``simplifies``) gets the other problem before that.
    """

    name: str
    help: str
    settings: type[msgspec.Struct]
    make: Callable[..., Any]
    simplifies: bool = False


@dataclass(frozen=True)
class Proof:
    """What was proven, and by whom.

    ``best`` is the largest bound; ``methods`` what was proven by the end of each method (its own bound, for a search),
    with the time of the method alone; ``objective`` that of the best plan that was met, None for none. If there is no
    plan at all (``infeasible``), ``best`` is infinite.
    """

    best: Bound
    methods: tuple[Bound, ...]
    objective: float | None = None
    infeasible: bool = False


@dataclass(frozen=True)
class Ahead:
    """Compiled kernels that a usual run calls, and a small run that calls them: compiled beside what else is to do."""

    kernels: tuple[Callable[..., object], ...]
    run: Callable[[], None]


#: What is in each: the protocol, and what it needs beyond a name and a summary.
_NEEDS: dict[str, tuple[type[Any], tuple[str, ...]]] = {
    "solver": (Solver, ("name", "summary", "supports", "solve()")),
    "baseline": (Solver, ("name", "summary", "supports", "solve()")),
    "bound": (BoundMethod, ("name", "summary", "supports", "bound()")),
}


def argument_of(component: Any) -> str:
    """By which argument what a component proves holds; empty for what proves nothing, which need not say so."""
    return getattr(component, "argument", "") or ""


#: By problem, what was added to it, and of what it was chosen.
_ADDED: dict[str, tuple[Sequence[Added], list[Added]]] = {}


Solvers: TypeAlias = Sequence[Solver[P, L, Any]]
Bounds: TypeAlias = Sequence[BoundMethod[P]]
Evaluate: TypeAlias = Callable[[P, L], E]
Certify: TypeAlias = Callable[[P, Bound], msgspec.Struct | None]
Deploy: TypeAlias = "Callable[[P, L, Cluster | None], Deployment]"


class Kind(Generic[P, L, E]):
    """A problem, as the conductor, the command line and the contract tests see it: P problem, L plan, E evaluation.

    A problem's package derives its descriptor from this and says what differs from what is usual. Left to say are
    ``summary``, ``problem``, ``plan``, ``solvers``, ``usual_solver`` and ``evaluate``.
    """

    summary: str  #: One line: what is minimised.
    #: The types; for the problem's see ``Stated``.
    problem: type[P]
    plan: type[L]
    #: What a search may be asked for: a declaration of settings (``partita.problems.settings``).
    options: type[SearchOptions] = SearchOptions
    baseline_time_s: float = 10.0  #: Wall time that one baseline gets; most take a moment.
    #: The visible lists: ways to search, bounds cheapest first, what people do by hand.
    solvers: Solvers[P, L] = ()
    bounds: Bounds[P] = ()
    baselines: Solvers[P, L] = ()
    #: Name of the solver that is used unless another one is named, where ``default_solver`` does not say it.
    usual_solver: str
    #: Objective and feasibility of a plan, from the problem alone: the only place where they are defined.
    evaluate: Evaluate[P, L, E]
    #: A compact certificate that shows a bound's value, made after the proof, in a moment; None for none known.
    certify: Certify[P] = staticmethod(lambda problem, bound: None)
    #: Why a problem has no plan, where that shows at once; see ``explain_infeasible``.
    why_none: Callable[[P], str] = staticmethod(lambda problem: "no plan satisfies every constraint")
    #: A plan with everything decided that baselines may leave open.
    complete: Callable[[P, L], L] = staticmethod(lambda problem, plan: plan)
    model: FromModel[P] | None = None  #: How a model on a cluster becomes a problem; None if it does not.
    #: Plans in files; tables and sentences for people; what can be swept, and which points relax which; what happens
    #: when a plan runs. Classes: they are made with this descriptor when they are asked for.
    files: Files[P, L, E] = lazy("partita.problems.facets.files:Files")
    report: Reporting[P, L, E] = lazy("partita.problems.facets.report:Reporting")
    sweep: Sweep[P, L] = lazy("partita.problems.facets.sweep:Sweep")
    timeline: TimeLine[P, L, E] = lazy("partita.problems.facets.timeline:TimeLine")
    #: What plans ask of physical devices, and how numbers of stages and replicas are searched; None where plans are not
    #: made of stages, or these are not searched.
    stages: Staging[P, L, E] | None = None
    replicas: Replication[P, L] | None = None
    #: How a plan of stages on a topology becomes a problem; None if it does not.
    from_result: FromResult[P] | None = None
    #: What engines are started from, on a cluster if that is known; None where plans are none of engines.
    deployment: Deploy[P, L] | None = None
    #: Families of random problems, and simpler forms of any problem.
    generators: Sequence[ProblemFamily] = ()
    #: Small problems that between them reach every compiled loop; those of a group reach much the same ones.
    samples: Sequence[Sequence[P]] = ()
    #: What a usual run compiles, in parts; what takes longest comes first.
    ahead: Sequence[Ahead] = ()

    @property
    def name(self) -> str:
        """In listings and in ``--problem``: the ``kind`` of the problem's type."""
        return str(self.problem.kind)

    @property
    def objective(self) -> str:
        """What planning models so is called, the value of ``--objective``: the name, unless ``model`` says another."""
        return (self.model and self.model.objective) or self.name

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

    def __init_subclass__(cls) -> None:
        """Lists are open to what is added to the problem."""
        for sort, name in LISTS.items():
            if name in vars(cls) and not isinstance(vars(cls)[name], OpenList):
                setattr(cls, name, OpenList(sort, vars(cls)[name]))

    def __getstate__(self) -> dict[str, Any]:
        """Without what is made again when it is asked for: types that are made here have no home to be found in."""
        return {name: value for name, value in vars(self).items() if name != "changes"}

    def added(self, sort: str) -> tuple[Any, ...]:
        """The solvers, baselines or bounds (``sort`` is the singular) that were added to this problem."""
        if getattr(self, "problem", None) is None:
            return ()
        every = everything()
        seen, found = _ADDED.get(self.name, ((), []))
        if every is not seen:
            found = []
            for one in every:
                if one.problem == self.name and sort_of(one):
                    why = self.unfit(one, found) if one.package else ""
                    if why:
                        leave_out(one, sort_of(one), why)
                    else:
                        found.append(one)
            _ADDED[self.name] = every, found
        return tuple(one.component for one in found if sort_of(one) == sort)

    @staticmethod
    def lacks(component: Any, sort: str) -> str:
        """What a solver, baseline or bound has not of what each of its sort needs; empty if it has all."""
        base, needs = _NEEDS[sort]
        missing = lacking(component, needs, base)
        return f"{missing}; derive it from {base.__name__} and add that" if missing else ""

    def unfit(self, one: Added, before: Sequence[Added] = ()) -> str:
        """Why something is no solver, baseline or bound of this problem; empty if it is."""
        lacks = self.lacks(one.component, sort_of(one))
        if lacks:
            return f"it {lacks}"
        others = {each.component.name for each in before}
        for part in (self, *self.parts):
            for name in LISTS.values():
                others |= {each.name for each in declared(inspect.getattr_static(part, name), part, type(part))}
        if one.component.name in others:
            return f"{self.title} already have a {one.component.name!r}; give this one another name"
        return ""

    def default_solver(self, problem: P, options: Any) -> str:
        """Name of the solver for a problem if none is named."""
        return self.usual_solver

    def solver(self, name: str) -> Solver[P, L, Any]:
        """One of the solvers by its name; KeyError if there is none."""
        return {solver.name: solver for solver in self.solvers}[name]

    def baselines_of(self, problem: P) -> Sequence[Solver[P, L, Any]]:
        """The baselines that are beside a problem's plan: all of the list."""
        return self.baselines

    def argument(self, method: str) -> str:
        """By which argument a bound or solver proves what it proves; empty if there is none of that name."""
        return next((argument_of(one) for one in (*self.solvers, *self.bounds) if one.name == method), "")

    def prove(self, problem: P, monitor: Monitor) -> Proof | None:
        """A bound by all means together; None to run the listed bounds and the default solver one after the other."""
        return None

    def explain_infeasible(
        self, problem: P, solver: Solver[P, L, Any], options: Any, time_limit_s: float = math.inf
    ) -> str:
        """Why there is no plan, and what would be enough; takes some seconds, and at most those given."""
        return self.why_none(problem)

    def change(self, problem: P, changes: Any) -> P:
        """The problem with what ``changes``, an instance of that type, asks for: by default, fields of those names."""
        stated = {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not None}
        changed: P = msgspec.structs.replace(problem, **stated)
        return changed

    def unlimited(self, problem: P, evaluation: E) -> P | None:
        """The problem without the limit that may have shaped the plan; None if none is nearly reached."""
        return None


# A descriptor that declares no list of its own has one all the same.
for _sort, _name in LISTS.items():
    setattr(Kind, _name, OpenList(_sort, ()))

AnyKind = Kind[Any, Any, Any]
AnyResult = Result[Any, Any, Any]
