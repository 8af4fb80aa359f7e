"""Paragraphs, and frames of tables and figures, for people."""

from __future__ import annotations

import io
import itertools
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from partita.ground.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType
    from rich.table import Table


def new_table(title: str, figures: Sequence[str] = (), words: str = "", more: Sequence[str] = ()) -> Table:
    """An empty table in the one style of all tables: columns of figures, one of words that may wrap, more figures."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in figures:
        table.add_column(column, justify="right", no_wrap=True)
    if words:
        table.add_column(words, overflow="fold", ratio=1)
    for column in more:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def paragraphs(title: str, sentences: Sequence[str]) -> str:
    """A heading, and an indented paragraph for each sentence; empty without sentences."""
    if not sentences:
        return ""
    lines = [title]
    for sentence in sentences:
        lines += textwrap.wrap(sentence, 118, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines) + "\n"


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, its sides in inches; ``MissingExtraError`` without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot") from error
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: str) -> None:
    """Write a figure, or raise ``InputError``; the ending of the path decides the format."""
    try:
        figure.savefig(path, dpi=150)
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: the plot cannot be written: {error}") from error


#: What a numbered name is called, and its number.
NUMBERED = re.compile(r"^(.*?)(\d+)$")


def module_ranges(names: Sequence[str]) -> list[str]:
    """Shorten runs of numbered siblings: ``h.0, h.1, h.2`` becomes ``h.0-2``."""

    def run(entry: tuple[int, str]) -> tuple[str, int, bool]:
        place, name = entry
        match = NUMBERED.match(name)
        return (match[1], int(match[2]) - place, True) if match else (name, place, False)

    result = []
    for (prefix, offset, numbered), entries in itertools.groupby(enumerate(names), run):
        first, *others = (place + offset for place, _ in entries)
        text = f"{prefix}{first}-{others[-1]}" if others else f"{prefix}{first}"
        result.append(text if numbered else prefix)
    return result


#: Columns of tables that do not go to a terminal.
WIDE = 140


def as_text(parts: Iterable[RenderableType], width: int = WIDE) -> str:
    """Tables and sentences as plain text; empty ones are left out."""
    from rich.console import Console

    stream = io.StringIO()
    screen = Console(file=stream, width=width)
    for part in parts:
        if part != "":
            screen.print(part, soft_wrap=isinstance(part, str), highlight=False, markup=False)
    return stream.getvalue()
