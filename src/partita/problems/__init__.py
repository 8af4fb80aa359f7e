"""The problems there are: one package each, found by the list in this file."""

from __future__ import annotations

from collections.abc import Iterable
from pkgutil import resolve_name
from typing import Any

from partita.ground.errors import InputError
from partita.ground.registry import Added, Shelf, everything, lacking
from partita.problems.attributes import LISTS, sort_of
from partita.problems.kind import AnyKind, Kind
from partita.problems.settings import flags_of

#: Where the descriptor of each problem is. The order is that of listings; a format's first problem is its default.
PROBLEMS: dict[str, str] = {
    "throughput": "partita.problems.throughput.descriptor:THROUGHPUT",
    "hybrid": "partita.problems.hybrid.descriptor:HYBRID",
    "latency": "partita.problems.latency.descriptor:LATENCY",
    "makespan": "partita.problems.makespan.descriptor:MAKESPAN",
    "mapping": "partita.problems.mapping.descriptor:MAPPING",
    "layer_placement": "partita.problems.layer_placement.descriptor:LAYER_PLACEMENT",
    "serving": "partita.problems.serving.descriptor:SERVING",
}

_LOADED: dict[str, AnyKind] = {}


class _Kinds(Shelf[AnyKind]):
    """The problems, no two of which have a name, an objective or a file format in common."""

    def refusal(self, one: Added, before: Iterable[AnyKind] = ()) -> str:
        kind = one.component
        lacks = lacking(kind, self.needs, Kind)
        if not lacks and type(kind).default_solver is Kind.default_solver:
            lacks = lacking(kind, ("usual_solver",), Kind)
        if lacks:
            return f"it {lacks}; derive it from Kind and say that"
        stated = kind.problem
        if not all(isinstance(getattr(stated, name, None), str) for name in ("kind", "format")):
            return f"its problem {stated.__name__} has no kind and no format; derive it from Stated and say both"
        for other in (*self.listed(), *before):
            for what, own, taken in (
                ("problem", kind.name, other.name),
                ("file format", stated.format, other.problem.format),
                ("objective", kind.objective, other.objective),
            ):
                if own == taken:
                    return f"there already is a {what} {own!r}; give this one another name"
        for sort, name in LISTS.items():
            for part in getattr(kind, name):
                lacks = kind.lacks(part, sort)
                if lacks:
                    return f"its {sort} {getattr(part, 'name', None) or type(part).__name__} {lacks}"
        names = [solver.name for solver in kind.solvers]
        if type(kind).default_solver is Kind.default_solver and kind.usual_solver not in names:
            return f"its usual_solver {kind.usual_solver!r} is none of its solvers {', '.join(names)}"
        return self._odd_flags(kind, before)

    def _odd_flags(self, kind: AnyKind, before: Iterable[AnyKind]) -> str:
        """What is wrong with its settings: every command reads those of all problems."""
        try:
            own = flags_of(kind.declarations)
            _ = [axis.setting.flag for axis in kind.sweep.axes]
        except Exception as error:  # raised by the problem's own declarations
            return f"its settings cannot be read: {type(error).__name__}: {error}"
        for other in (*self.listed(), *before):
            for flag, entry in flags_of(other.declarations).items():
                if flag in own and own[flag].is_switch != entry.is_switch:
                    what = "takes a value" if entry.is_switch else "is a switch"
                    return f"its flag {flag} {what}, which that of {other.title} does not; call it otherwise"
        return ""


def _listed() -> list[AnyKind]:
    """The problems of the list."""
    return [find_kind(name) for name in PROBLEMS]


#: Those of the list and those that were added.
KINDS = _Kinds("problem", Kind, _listed, ("summary", "problem", "plan", "solvers", "evaluate()"))


class _Parts(Shelf[Any]):
    """Solvers, baselines and bounds, each in the list of its problem."""

    def takes(self, one: Added) -> bool:
        return not isinstance(one.component, Kind) and bool(sort_of(one))

    def refusal(self, one: Added, before: Iterable[Any] = ()) -> str:
        if not one.problem:
            return "it does not say of which problem it is; give problem=…, or an attribute of that name"
        kind = find_kind(one.problem)
        return kind.unfit(one, [each for each in everything() if each.problem == kind.name and sort_of(each)])


#: What was added to problems; what they have otherwise is in their own lists.
PARTS = _Parts("solver, baseline or bound", object, tuple)


def find_kind(name: str) -> AnyKind:
    """The problem of a name; one that there is not is refused."""
    if name in PROBLEMS:
        if name not in _LOADED:
            _LOADED[name] = resolve_name(PROBLEMS[name])
        return _LOADED[name]
    found = next((kind for kind in KINDS.added() if kind.name == name), None)
    if found is None:
        raise InputError(f"there is no problem {name!r}; known are {KINDS.known}")
    return found


def kinds() -> tuple[AnyKind, ...]:
    """All problems, those of the list first."""
    return tuple(KINDS)


def kind_of(problem: Any) -> AnyKind:
    """The descriptor of a problem's value; what is no problem is refused."""
    name = getattr(problem, "kind", None)
    if not isinstance(name, str):
        raise InputError(f"{type(problem).__name__} is not a problem; give what read_problem or price returns")
    return find_kind(name).of(problem)
