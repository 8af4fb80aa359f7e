"""Attributes of a problem's descriptor: what is imported when it is asked for, and lists that are open to additions."""

from __future__ import annotations

from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Any

from partita.ground.registry import Added

#: The lists of a problem, by what one of them is called.
LISTS = {"solver": "solvers", "baseline": "baselines", "bound": "bounds"}


class Lazy:
    """What ``lazy`` makes: it stands for what is at ``home`` until it is asked for."""

    def __init__(self, home: str) -> None:
        self.home = home

    def __get__(self, owner: Any, kind: type[Any]) -> Any:
        found = resolve_name(self.home)
        return found(owner) if isinstance(found, type) else found


def lazy(home: str) -> Any:
    """An attribute of a descriptor that is heavy to import, written ``name = lazy("module:name")``.

    It is imported when it is asked for; a class is called with the descriptor. Its type is what ``Kind`` says of it.
    """
    return Lazy(home)


def sort_of(one: Added) -> str:
    """Which list of its problem something added belongs to: what it says, else what it can do; empty for none."""
    if one.sort in LISTS:
        return one.sort
    can = {"solver": "solve", "bound": "bound"}
    return next((sort for sort, verb in can.items() if callable(getattr(one.component, verb, None))), "")


class OpenList:
    """A list of a descriptor, and behind it what was added to its problem."""

    def __init__(self, sort: str, listed: Any) -> None:
        self.sort, self.listed = sort, listed

    def __get__(self, owner: Any, kind: type[Any]) -> Any:
        listed = declared(self, owner, kind)
        added = () if owner is None else owner.added(self.sort)
        return (*listed, *added) if added else listed


def declared(listed: Any, owner: Any, kind: type[Any]) -> Sequence[Any]:
    """What stands in a list of a descriptor, without what was added."""
    if isinstance(listed, OpenList):
        listed = listed.listed
    bind = getattr(type(listed), "__get__", None)
    found: Sequence[Any] = listed if bind is None else bind(listed, owner, kind)
    return found
