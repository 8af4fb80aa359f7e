"""Register a component: it then works everywhere the package's own ones do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

from partita.exporters import ALL_EXPORTERS
from partita.ground.errors import InputError
from partita.ground.registry import Added, Shelf, described, everything, given, made, put, replace, take_back
from partita.nouns.catalogue.loader import DEVICES, LINKS
from partita.nouns.catalogue.runtimes import ALL_RUNTIMES
from partita.nouns.topology.generators import FAMILIES
from partita.nouns.topology.importers import FORMATS as TOPOLOGY_FORMATS
from partita.problems import KINDS, PARTS
from partita.problems.importers import FORMATS
from partita.simulator.schedules import SCHEDULES

#: All sorts of components.
SHELVES: tuple[Shelf[Any], ...] = (
    *(KINDS, PARTS, FORMATS, SCHEDULES, ALL_EXPORTERS, ALL_RUNTIMES),
    *(FAMILIES, TOPOLOGY_FORMATS, DEVICES, LINKS),
)

#: What a part of a problem is, where it does not show.
PartSort = Literal["solver", "baseline", "bound"]

C = TypeVar("C")


@overload
def register(component: C, *, problem: str | type[object] | None = None, sort: PartSort | None = None) -> C: ...


@overload
def register(*, problem: str | type[object] | None = None, sort: PartSort | None = None) -> Callable[[C], C]: ...


def register(
    component: object | None = None, *, problem: str | type[object] | None = None, sort: PartSort | None = None
) -> object:
    """Add a component to those of the package, in this program and in the processes that it starts.

    It then works wherever the package's own ones do: in ``solve``, ``plan``, ``compare``, ``bound``, sweeps, listings,
    flags of the command line, exports, and clusters and topologies as text. Also a decorator of a class, with or
    without arguments, which registers one that is made without arguments.

    Parameters
    ----------
    component
        A solver, baseline or bound (``Solver``, ``BoundMethod``, or anything with their methods), a problem (``Kind``),
        an ``Exporter``, a ``Runtime``, a ``Schedule``, a ``TopologyGenerator``, a ``TopologyImporter``, a
        ``ForeignFormat``, a ``DeviceSpec`` or a ``LinkSpec``; or a class of which one can be made without arguments.
    problem
        Of a solver, baseline or bound: the problem that it is for, by name or by type, unless its attribute ``problem``
        says it.
    sort
        ``baseline`` of what is shown beside plans and proves nothing, unless its attribute ``sort`` says it. What can
        ``solve`` is a solver and what can ``bound`` a bound unless stated.

    Returns
    -------
    The component, as it was given; without one, what takes it.

    Raises
    ------
    InputError
        If it is no component, lacks something, or has a name that is taken.
    """
    if component is None:
        return lambda later: register(later, problem=problem, sort=sort)
    put(accepted(component, problem, sort))
    return component


def accepted(component: Any, problem: Any = None, sort: str | None = None) -> Added:
    """A component as it is registered; refuses what is none, is not complete or has a name that is taken.

    What is registered already, or is equal to that, stays; a class that a notebook states again takes its place.
    """
    for one in given():
        if type(one.component) is component or (type(one.component) is type(component) and one.component == component):
            return one
    found = described(made(component), problem, sort or "")
    before = [one for one in given() if _again(one.component, found.component)]
    kept = given()
    replace([one for one in kept if one not in before])
    try:
        _check(found)
    except InputError:
        replace(kept)
        raise
    return found


def _again(before: Any, now: Any) -> bool:
    """Whether a class was stated once more in the same place: a cell of a notebook that ran again."""
    old, new = type(before), type(now)
    return new.__module__ == "__main__" == old.__module__ and new.__qualname__ == old.__qualname__


def _check(found: Added) -> None:
    shelves = [shelf for shelf in SHELVES if shelf.takes(found)]
    if not shelves:
        raise InputError(f"{found.label} cannot be registered: {_no_component(found)}")
    for shelf in shelves:
        why = shelf.refusal(found, shelf.added())
        if why:
            own = any(getattr(one.component, "name", None) == found.component.name for one in given())
            hint = ", or take the other one back with unregister" if own and "another name" in why else ""
            raise InputError(f"{shelf.sort} {found.label} cannot be registered: {why}{hint}")


def _no_component(found: Added) -> str:
    """What something that no shelf takes would have to be."""
    bases = ", ".join(shelf.base.__name__ for shelf in SHELVES if shelf is not PARTS)
    if found.problem:
        return (
            "it has neither solve(problem, options, monitor), as a solver or baseline has, nor "
            "bound(problem, monitor), as a bound has; derive it from Solver or BoundMethod and add that"
        )
    return (
        "it is no component: a solver or baseline has name, summary, supports() and solve(), a bound bound() instead, "
        f"and other components derive from {bases}"
    )


def unregister(component: object) -> None:
    """Take back ``register``: of a component, of its class, or of the one of a name.

    Raises ``InputError`` if it is not registered here.
    """
    take_back(component)


def strangers() -> list[str]:
    """What packages bring that is of no sort, or for a problem that there is not: a sentence each."""
    known = {kind.name for kind in KINDS}
    found = []
    for one in everything():
        if one.package and not any(shelf.takes(one) for shelf in SHELVES):
            found.append(f"package {one.package}: {one.label} is left out: {_no_component(one)}")
        elif one.package and PARTS.takes(one) and one.problem not in known:
            why = PARTS.refusal(one) if not one.problem else f"there is no problem {one.problem!r}"
            found.append(f"package {one.package}: {one.label} is left out: {why}")
    return found
