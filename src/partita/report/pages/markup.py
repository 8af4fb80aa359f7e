"""Pieces of HTML: everything that comes from a document is escaped here."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from partita.ground.units import format_bytes, format_time

if TYPE_CHECKING:
    from rich.table import Table


class Markup(str):
    """Text that is HTML already; everything else is escaped."""

    __slots__ = ()


def markup(value: Any) -> Markup:
    """A value as HTML."""
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def joined(parts: Iterable[Any]) -> Markup:
    """Pieces one after the other."""
    return Markup("".join(markup(part) for part in parts))


def tag(name: str, *content: Any, **attributes: Any) -> Markup:
    """An element: attributes that are None are left out, ``_`` at their end is dropped, inside it is a hyphen."""
    shown = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value), quote=True)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{name}{shown}>{joined(content)}</{name}>")


def exact(value: float, text: str) -> Markup:
    """A number in words, which keeps its exact value."""
    return tag("data", text, value=repr(value))


def time(value: float | None, unit: str) -> Markup:
    """A time for people; a dash where there is none."""
    return Markup("—") if value is None else exact(value, format_time(value, unit))


def size(value: float | None) -> Markup:
    """Bytes for people; no limit where there are none."""
    return markup(format_bytes(value)) if value is None else exact(value, format_bytes(value))


def share(value: float | None, digits: int = 1) -> Markup:
    """A share in percent; a dash where there is none."""
    return Markup("—") if value is None else exact(value, f"{value:.{digits}%}")


def table(
    caption: Any,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    words: Iterable[str] = (),
    marked: Iterable[int] = (),
) -> Markup:
    """A table whose first cells are the headers of their rows.

    ``words`` are the columns of text, which may wrap and start at the left like the first; ``marked`` the numbers of
    rows to be seen first.
    """
    textual = {columns[0], *words} if columns else set()
    kinds = [None if column in textual else "n" for column in columns]
    head = tag(
        "tr", *(tag("th", column, scope="col", class_=kind) for column, kind in zip(columns, kinds, strict=True))
    )
    chosen = set(marked)
    body = []
    for number, row in enumerate(rows):
        first, *others = row
        cells = [tag("th", first, scope="row")]
        cells += [tag("td", cell, class_=kind) for cell, kind in zip(others, kinds[1:], strict=True)]
        body.append(tag("tr", *cells, class_="marked" if number in chosen else None))
    title = tag("caption", caption)
    found = tag("table", title, tag("thead", head), tag("tbody", *body))
    return tag("div", found, class_="scroll", tabindex="0", role="group", aria_label=str(caption))


def rich_tables(shown: Iterable[Any]) -> list[Table]:
    """The tables among what the command line shows."""
    from rich.table import Table

    return [part for part in shown if isinstance(part, Table)]


def of_rich(found: Table) -> Markup:
    """A table of the command line."""
    columns = [str(column.header) for column in found.columns]
    cells = [[str(cell) for cell in column.cells] for column in found.columns]
    words = [str(column.header) for column in found.columns if column.justify == "left"]
    marked = [number for number, row in enumerate(found.rows) if row.style]
    return table(str(found.title or ""), columns, zip(*cells, strict=True), words=words, marked=marked)


def listed(sentences: Iterable[Any]) -> Markup:
    """Sentences as a list; nothing of none."""
    found = [tag("li", sentence) for sentence in sentences]
    return tag("ul", *found) if found else Markup("")


def facts(pairs: Iterable[tuple[Any, Any]]) -> Markup:
    """Names with their values."""
    return tag("dl", *itertools.chain.from_iterable((tag("dt", name), tag("dd", value)) for name, value in pairs))


def details(summary: Any, *content: Any, open_: bool = False) -> Markup:
    """What is shown when somebody asks for it."""
    return tag("details", tag("summary", summary), *content, open_=open_)


def section(identity: str, title: str, *content: Any, lead: Any = None) -> Markup:
    """A part of the page with its heading; nothing without content."""
    shown = [part for part in content if part]
    if not shown:
        return Markup("")
    start = [tag("h2", title, id_=f"{identity}-title")]
    if lead:
        start.append(tag("p", lead, class_="lead"))
    return tag("section", *start, *shown, id_=identity, aria_labelledby=f"{identity}-title")
