"""The problems that there are, and their solvers, bounds and baselines."""

from __future__ import annotations

from partita.components.entries import ComponentEntry, Listing, package_of, tell_strangers
from partita.problems import find_kind, kinds
from partita.problems.attributes import LISTS
from partita.problems.kind import argument_of


class ProblemEntry(ComponentEntry, frozen=True, kw_only=True):
    """A problem."""

    format: str  #: The name of its file format.
    objective: str | None  #: What planning models so is called, the value of ``--objective``; None for none.


class PartEntry(ComponentEntry, frozen=True, kw_only=True):
    """A solver, baseline or bound."""

    problem: str
    argument: str = ""  #: By which argument what it proves holds; empty for what proves nothing.


def problem_kinds() -> Listing[ProblemEntry]:
    """The problems that can be solved."""
    tell_strangers()
    found = [
        ProblemEntry(
            name=kind.name,
            summary=kind.summary,
            package=package_of(kind),
            format=kind.problem.format,
            objective=None if kind.model is None else kind.objective,
        )
        for kind in kinds()
    ]
    return Listing("problems", found, lambda entry: (entry.name, entry.summary))


def _parts(sort: str, problem: str | None) -> Listing[PartEntry]:
    tell_strangers()
    found = [
        PartEntry(
            name=part.name,
            problem=kind.name,
            summary=part.summary,
            argument=argument_of(part),
            package=package_of(part if part in kind.added(sort) else kind),
        )
        for kind in (kinds() if problem is None else [find_kind(problem)])
        for part in getattr(kind, LISTS[sort])
    ]
    return Listing(LISTS[sort], found, lambda entry: (entry.name, entry.problem, entry.summary))


def solvers(problem: str | None = None) -> Listing[PartEntry]:
    """The solvers of every problem, or of one by its name."""
    return _parts("solver", problem)


def bounds(problem: str | None = None) -> Listing[PartEntry]:
    """The bounds of every problem, or of one by its name, cheapest first."""
    return _parts("bound", problem)


def baselines(problem: str | None = None) -> Listing[PartEntry]:
    """The baselines of every problem, or of one by its name: what people do by hand."""
    return _parts("baseline", problem)
