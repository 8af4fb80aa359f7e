"""Plots, made with matplotlib (extra ``plot``); nothing here touches global state or a display."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from partita.documents.tables.figure import new_figure, save_figure
from partita.problems.facets.sweep import Axis
from partita.report.sweep import varied

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Keys of a row that are times, with the style of their line and what it is called; those that are there are drawn.
_TIMES = (
    ("objective", "o-", "plan"),
    ("bound", "--", "bound"),
    ("step_per_microbatch", "s--", "plan, whole step"),
    ("baseline_objective", "x:", "best baseline"),
)


def _lines(axes: Sequence[Axis], document: dict[str, Any]) -> tuple[Axis, dict[str, list[dict[str, Any]]]]:
    """The axis to draw along, and the rows of each line by what tells the lines apart."""
    rows: list[dict[str, Any]] = document["rows"]
    first, *others = varied(axes, rows)
    lines: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        label = ", ".join(f"{axis.title} {axis.show(row[axis.row_key])}" for axis in others)
        line = lines.setdefault(label, [])
        if row[first.row_key] is not None:
            line.append(row)
    return first, {label: sorted(line, key=lambda row: row[first.row_key]) for label, line in lines.items()}


def _draw(
    ax: Axes, along: Sequence[Axis], document: dict[str, Any], shown: Sequence[tuple[str, str, str]], ylabel: str
) -> None:
    """Some keys of the rows over the first axis of the grid with several values; points without a value are holes."""
    first, lines = _lines(along, document)
    for number, (name, line) in enumerate(lines.items()):
        for place, (key, style, what) in enumerate(shown):
            y = [math.nan if row[key] is None else row[key] for row in line]
            # One line has a colour for each quantity, several have one for each line.
            color = f"C{(number if len(lines) > 1 else place) % 10}"
            label = ", ".join(part for part in (what, name) if part) or "steady state"
            ax.plot([row[first.row_key] for row in line], y, style, color=color, label=label)
    ax.set_ylim(bottom=0)
    ax.set_ylabel(ylabel)
    ax.set_xlabel(first.title)
    ax.legend(fontsize="small")


def save_sweep(path: str, along: Sequence[Axis], document: dict[str, Any]) -> None:
    """Draw a sweep along its axes into a file, whose ending decides the format: times, and efficiency where rows have
    one.

    ``document`` is what ``report.sweep.sweep_document`` gives.
    """

    def there(key: str) -> bool:
        return any(row.get(key) is not None for row in document["rows"])

    panels = 2 if there("efficiency") else 1
    figure = new_figure(7.0 if panels == 1 else 10.0, 4.5)
    times, *others = figure.subplots(1, panels, squeeze=False)[0]
    shown = [entry for entry in _TIMES if there(entry[0])]
    _draw(times, along, document, shown, f"time per microbatch ({document['unit']})")
    for ax in others:
        # Relative to the smallest point.
        _draw(ax, along, document, [("efficiency", "o-", "")], "efficiency, relative to the fewest devices")
    figure.suptitle(str(document["problem"]["name"]))
    save_figure(figure, path)
