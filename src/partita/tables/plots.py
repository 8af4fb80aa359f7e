"""Plots, made with matplotlib (extra ``plot``); nothing here touches global state or a display."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from partita.errors import InputError, MissingExtraError
from partita.tables.sweep import varied

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from partita.problems.facets.sweep import Axis

#: Keys of a row that are times, with the style of their line and what it is called; those that are there are drawn.
_TIMES = (
    ("objective", "o-", "plan"),
    ("bound", "--", "bound"),
    ("step_per_sample", "s--", "plan, whole step"),
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


def plot_sweep(axes: Sequence[Axis], document: dict[str, Any], ax: Axes | None = None) -> Axes:
    """Objective, bound, best baseline and whole steps over the first axis of the grid with several values.

    Parameters
    ----------
    axes
        Of the sweep.
    document
        What ``tables.sweep.sweep_document`` gives. Points without a plan leave a hole.
    ax
        Where to draw; None makes a figure.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    if ax is None:
        ax = _figure(1).subplots()
    first, lines = _lines(axes, document)
    shown = [entry for entry in _TIMES if any(row.get(entry[0]) is not None for row in document["rows"])]
    for number, (name, line) in enumerate(lines.items()):
        for place, (key, style, what) in enumerate(shown):
            y = [math.nan if row[key] is None else row[key] for row in line]
            # One line has a colour for each quantity, several have one for each line.
            color = f"C{(number if len(lines) > 1 else place) % 10}"
            label = ", ".join(part for part in (what, name) if part)
            ax.plot([row[first.row_key] for row in line], y, style, color=color, label=label)
    ax.set_ylim(bottom=0)
    ax.set_ylabel(f"time per sample ({document['unit']})")
    return _finish(ax, first)


def plot_efficiency(axes: Sequence[Axis], document: dict[str, Any], ax: Axes) -> Axes:
    """Efficiency relative to the smallest point, where rows have one."""
    first, lines = _lines(axes, document)
    for number, (name, line) in enumerate(lines.items()):
        y = [math.nan if row["efficiency"] is None else row["efficiency"] for row in line]
        x = [row[first.row_key] for row in line]
        ax.plot(x, y, "o-", color=f"C{number % 10}", label=name or "steady state")
    ax.set_ylim(bottom=0)
    ax.set_ylabel("efficiency, relative to the fewest devices")
    return _finish(ax, first)


def _finish(ax: Axes, first: Axis) -> Axes:
    ax.set_xlabel(first.title)
    ax.legend(fontsize="small")
    return ax


def _figure(panels: int) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot") from error
    return Figure(figsize=(7.0 if panels == 1 else 10.0, 4.5), layout="constrained")


def save_sweep(path: str, axes: Sequence[Axis], document: dict[str, Any]) -> None:
    """Draw a sweep into a file; its ending decides the format.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    InputError
        If the ending is no image format or the file cannot be written.
    """
    with_efficiency = any(row.get("efficiency") is not None for row in document["rows"])
    figure = _figure(2 if with_efficiency else 1)
    if with_efficiency:
        left, right = figure.subplots(1, 2)
        plot_sweep(axes, document, left)
        plot_efficiency(axes, document, right)
    else:
        plot_sweep(axes, document, figure.subplots())
    figure.suptitle(str(document["problem"]["name"]))
    try:
        figure.savefig(path, dpi=150)
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: the plot cannot be written: {error}") from error
