"""What stands behind the lists of the package: what a program registers, and what installed packages bring.

Each sort of component (solvers, schedules, devices, …) has a visible list in its room, and a ``Shelf`` that looks
through that list and then through what was added. A package brings components by entry points of the group
``partita.components``: each names a component, several, or a function that returns them. They are looked for when
somebody asks for what a list does not have, or for all.
"""

from __future__ import annotations

import inspect
import threading
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

from partita.ground.errors import ComponentWarning, InputError

#: The group of entry points by which packages bring components.
GROUP = "partita.components"

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Added:
    """A component that is in no list of the package."""

    component: Any
    problem: str = ""  #: Of a solver, baseline or bound: the problem that it is for.
    sort: str = ""  #: ``solver``, ``baseline`` or ``bound`` where that is said; empty where the component shows it.
    package: str = ""  #: Who brings it; empty for this program.

    @property
    def label(self) -> str:
        """What it is called in messages."""
        name = getattr(self.component, "name", None)
        return repr(name) if isinstance(name, str) and name else type(self.component).__name__


#: What this program registered, and what packages bring, in that order; the same value while nothing changes.
_given: tuple[Added, ...] = ()
_brought: tuple[Added, ...] = ()
_every: tuple[Added, ...] = ()
_lock = threading.RLock()
#: Whether packages were asked, or are being asked: what they run may ask for components itself.
_asked = _asking = False


def _warn(text: str) -> None:
    warnings.warn(text, ComponentWarning, stacklevel=2)


#: Called with a sentence about a package whose component cannot be used; the command line prints it.
tell: Callable[[str], None] = _warn


#: What was told: a shelf is looked through again whenever something is registered.
_told: set[str] = set()


def tell_once(text: str) -> None:
    if text not in _told:
        _told.add(text)
        tell(text)


def leave_out(one: Added, sort: str, why: str) -> None:
    """Say that a package's component is not used, and why."""
    tell_once(f"package {one.package}: its {sort} {one.label} is left out: {why}")


def everything() -> tuple[Added, ...]:
    """All that was added; asks the installed packages if that was not done yet."""
    global _asked, _asking, _brought
    if not _asked:
        with _lock:
            if not (_asked or _asking):
                _asking = True
                try:
                    _brought = tuple(_of_packages())
                    _change(_given)
                    _asked = True
                finally:
                    _asking = False
    return _every


def given() -> tuple[Added, ...]:
    """What this program registered: what its worker processes have to be told."""
    return _given


def put(added: Added) -> None:
    """Add a component that a shelf found sound; once more is no change."""
    with _lock:
        if all(one.component is not added.component for one in _given):
            _change((*_given, added))


def replace(added: Sequence[Added]) -> None:
    """Have exactly these instead of what this program registered."""
    with _lock:
        _change(tuple(added))


def take_back(what: Any) -> None:
    """Forget a component that this program registered: itself, its class, or its name; ``InputError`` if not there."""
    with _lock:
        named = isinstance(what, str)
        found = [
            one
            for one in _given
            if one.component is what or type(one.component) is what or (named and one.component.name == what)
        ]
        if not found:
            known = ", ".join(one.component.name for one in _given) or "nothing"
            shown = repr(what) if named else getattr(what, "__name__", type(what).__name__)
            raise InputError(f"{shown} is not registered here; registered is {known}")
        if named and len(found) > 1:
            raise InputError(f"{len(found)} components are called {what!r}; give the component itself")
        _change(tuple(one for one in _given if one not in found))


def _change(now: tuple[Added, ...]) -> None:
    global _given, _every
    _given = now
    _every = (*now, *_brought)


def made(component: Any) -> Any:
    """A component, one of a class made without arguments."""
    if not isinstance(component, type):
        return component
    lacking = sorted(getattr(component, "__abstractmethods__", ()))
    if lacking:
        raise InputError(f"{component.__name__} has no {' and no '.join(lacking)}; add what is missing")
    try:
        return component()
    except TypeError as error:
        raise InputError(
            f"{component.__name__} cannot be made without arguments ({error}); give an instance of it"
        ) from None


def described(component: Any, problem: Any = None, sort: str = "", package: str = "") -> Added:
    """A component with what it says of itself: ``problem`` by name or by the type of the problem, and ``sort``."""
    of = getattr(component, "problem", "") if problem is None else problem
    name = getattr(of, "kind", of)
    said = getattr(component, "sort", "")
    return Added(
        component, name if isinstance(name, str) else "", sort or (said if isinstance(said, str) else ""), package
    )


def _of_packages() -> Iterator[Added]:
    """What the entry points of all installed packages bring; one that fails is told and left out."""
    # Reading what is installed takes a moment, which nobody waits for who asks for nothing.
    for point in resolve_name("importlib.metadata:entry_points")(group=GROUP):
        package = point.dist.name if point.dist is not None else point.module
        try:
            for component in _listed(point.load()):
                # A class that its own module has registered already stays what it is.
                if not any(component is each for one in _given for each in (one.component, type(one.component))):
                    yield described(made(component), package=package)
        except Exception as error:  # raised by the package's own code
            said = " ".join(f"{type(error).__name__}: {error}".split())
            tell_once(f"package {package}: its entry point {point.name!r} ({point.value}) brings no components: {said}")


def _listed(found: Any) -> Iterable[Any]:
    """The components that an entry point stands for."""
    if isinstance(found, (types.FunctionType, types.BuiltinFunctionType, types.MethodType, partial)):
        found = found()
    if found is None or isinstance(found, types.ModuleType):
        # It registers what it has when it is run, or imported.
        return ()
    if isinstance(found, Mapping):
        return found.values()
    several = isinstance(found, Iterable) and not isinstance(found, (type, str)) and not hasattr(found, "name")
    return found if several else (found,)


def lacking(component: Any, needs: Sequence[str], base: type[Any]) -> str:
    """What a component has not of what it needs, as the rest of a sentence; empty if it has all.

    ``name`` and ``summary`` are texts of one line, what ends in ``()`` is a method of its own: that of the base class
    does nothing.
    """
    missing = []
    for need in needs:
        attribute = need.removesuffix("()")
        value = getattr(component, attribute, None)
        if need.endswith("()"):
            own = inspect.getattr_static(component, attribute, None)
            fine = callable(value) and own is not inspect.getattr_static(base, attribute, None)
        elif need in ("name", "summary"):
            fine = isinstance(value, str) and bool(value.strip()) and "\n" not in value
        else:
            fine = value is not None
        if not fine:
            missing.append(need)
    return f"has no {' and no '.join(missing)}" if missing else ""


class Shelf(Generic[T]):
    """One sort of component: what is in the package's list, and behind it what was added.

    Parameters
    ----------
    sort
        What one is called in messages.
    base
        The class that all derive from, which may be abstract.
    listed
        The list of the package; a function, because who makes the shelf may be below the list.
    needs
        What each has, as ``lacking`` reads it.
    """

    def __init__(
        self, sort: str, base: Any, listed: Callable[[], Iterable[T]], needs: Sequence[str] = ("name", "summary")
    ) -> None:
        self.sort, self.base, self.listed, self.needs = sort, base, listed, needs
        self._seen: tuple[Added, ...] | None = None
        self._found: tuple[T, ...] = ()

    def __iter__(self) -> Iterator[T]:
        """All: those of the list first."""
        return iter((*self.listed(), *self.added()))

    def get(self, name: str) -> T | None:
        """The one of a name; None for none. Packages are asked only for what the list does not have."""
        return next((one for source in (self.listed, self.added) for one in source() if name in self.named(one)), None)

    @property
    def known(self) -> str:
        """All names, for messages."""
        return ", ".join(next(iter(self.named(one))) for one in self)

    def added(self) -> tuple[T, ...]:
        """What was added of this sort; what a package brings and is not sound is told and left out."""
        every = everything()
        if every is not self._seen:
            found: list[T] = []
            for one in every:
                if self.takes(one):
                    why = self.refusal(one, found) if one.package else ""
                    if why:
                        leave_out(one, self.sort, why)
                    else:
                        found.append(self.of(one))
            self._found, self._seen = tuple(found), every
        return self._found

    def takes(self, one: Added) -> bool:
        """Whether something is of this sort."""
        return isinstance(one.component, self.base)

    def of(self, one: Added) -> T:
        """What stands on the shelf of something that it takes."""
        component: T = one.component
        return component

    def named(self, component: T) -> Iterable[str]:
        """All names that one is found by, its own first."""
        return (component.name,)  # type: ignore[attr-defined]

    def refusal(self, one: Added, before: Iterable[T] = ()) -> str:
        """Why something cannot stand here, behind the list and others; empty if it can."""
        lacks = lacking(self.of(one), self.needs, self.base)
        if lacks:
            return f"it {lacks}; derive it from {self.base.__name__} and add that"
        wanted = set(self.named(self.of(one)))
        taken = wanted & {name for other in (*self.listed(), *before) for name in self.named(other)}
        if taken:
            return f"there already is a {self.sort} {min(taken)!r}; give this one another name"
        return self.unfit(self.of(one))

    def unfit(self, component: T) -> str:
        """What else a complete component must not be; empty if it is fine."""
        return ""
