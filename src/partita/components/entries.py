"""Entries of listings, and a listing: some of them in order."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from pkgutil import resolve_name
from typing import Any, Generic, Protocol, TypeVar, overload

import msgspec

from partita.ground.errors import InputError
from partita.ground.registry import everything, tell_once

#: Of entries that are shown, the most, and the most characters of a line.
MOST_LINES, MOST_WIDTH = 20, 160


class Named(Protocol):
    """What has a name."""

    @property
    def name(self) -> str:
        """By which it is found."""


class ComponentEntry(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Something that there is: its name, one line about it, and who brings it.

    ``package`` is ``partita``, the installed package that brings it, or None where this program has registered it.
    """

    name: str
    summary: str
    package: str | None = "partita"


R = TypeVar("R", bound=Named)


class Listing(Sequence[R], Generic[R]):
    """Some entries in order, found by number or by name.

    It prints as a table of at most 25 lines, and shows as one in a notebook.
    """

    def __init__(self, title: str, entries: Iterable[R], cells: Callable[[R], tuple[str, ...]]) -> None:
        self.title, self._entries, self._cells = title, tuple(entries), cells

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, at: int | str) -> R: ...

    @overload
    def __getitem__(self, at: slice) -> Listing[R]: ...

    def __getitem__(self, at: int | str | slice) -> R | Listing[R]:
        if isinstance(at, slice):
            return Listing(self.title, self._entries[at], self._cells)
        if isinstance(at, int):
            return self._entries[at]
        found = next((entry for entry in self._entries if entry.name == at), None)
        if found is None:
            raise InputError(f"there is no {at!r} among the {self.title}; there are {', '.join(self.names)}")
        return found

    @property
    def names(self) -> list[str]:
        """The name of each, in order."""
        return [entry.name for entry in self._entries]

    def rows(self) -> list[tuple[str, ...]]:
        """What the command line lists of each, cell by cell."""
        return [self._cells(entry) for entry in self._entries]

    def document(self) -> dict[str, list[dict[str, Any]]]:
        """All facts as plain values: what ``--json`` prints."""
        return {self.title: [msgspec.to_builtins(entry) for entry in self._entries]}

    def to_frame(self) -> Any:
        """All facts as a ``pandas.DataFrame``, a row for each; as a list of dictionaries where pandas is missing."""
        records = self.document()[self.title]
        try:
            from pandas import DataFrame
        except ImportError:
            return records
        return DataFrame(records)

    def __repr__(self) -> str:
        rows = self.rows()[:MOST_LINES]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        short = [line if len(line) <= MOST_WIDTH else f"{line[: MOST_WIDTH - 1]}…" for line in lines]
        more = len(self) - len(rows)
        return "\n".join([f"{len(self)} {self.title}", *short, *([f"… and {more} more"] if more else [])])

    def _repr_html_(self) -> str:
        rows = "".join(
            "<tr>" + "".join(f"<td style='text-align: left'>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows()
        )
        return f"<table><caption>{html.escape(self.title)}</caption>{rows}</table>"


def package_of(component: Any) -> str | None:
    """Who brings a component; None for this program."""
    found = next((one for one in everything() if one.component is component), None)
    return "partita" if found is None else found.package or None


def tell_strangers() -> None:
    """Say what packages bring that cannot be used, beside a listing of what can."""
    # What knows all sorts takes a moment to import, and few have such packages.
    if any(one.package for one in everything()):
        for text in resolve_name("partita.components.register:strangers")():
            tell_once(text)
