"""A sweep as a document, as CSV, as a table, and as a plot."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from partita.documents.tables.text import new_figure, new_table, save_figure
from partita.ground.fronts import front
from partita.ground.units import format_time
from partita.problems.facets.sweep import Axis, Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table


def sweep_document(name: str, unit: str, rows: list[dict[str, Any]], *, interrupted: bool = False) -> dict[str, Any]:
    """``{"format": "partita.sweep", …, "rows": [one per point]}``."""
    return {
        "format": "partita.sweep",
        "version": 1,
        "problem": {"name": name},
        "unit": unit,
        "interrupted": interrupted,
        "rows": rows,
    }


def sweep_csv(document: dict[str, Any]) -> str:
    """The rows with a header; what is unknown or infinite is empty, lists are left out."""
    rows = document["rows"]
    flat = [key for key in (rows[0] if rows else {}) if not any(isinstance(row[key], list) for row in rows)]
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=flat, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows({key: "" if value is None else value for key, value in row.items()} for row in rows)
    return text.getvalue()


def varied(axes: Sequence[Axis], rows: Sequence[dict[str, Any]]) -> list[Axis]:
    """The axes along which the rows differ; the first one if they do not."""
    return [axis for axis in axes if len({row[axis.row_key] for row in rows}) > 1] or list(axes[:1])


def sweep_table(facet: Sweep[Any, Any], document: dict[str, Any]) -> Table:
    """One row per point; axes whose value is the same everywhere are left out."""
    rows, unit = document["rows"], document["unit"]
    axes, columns = varied(facet.axes, rows), facet.columns()
    table = new_table("Sweep", (*(axis.title for axis in axes), "objective", "bound", "gap"))
    table.add_column("status", no_wrap=True)
    table.add_column("runtime", justify="right", no_wrap=True)
    for title, _ in columns.values():
        table.add_column(title, justify="right", overflow="fold")
    table.add_column("best baseline", overflow="fold")

    def time(value: Any) -> str:
        return "—" if value is None else format_time(value, unit)

    for row in rows:
        best, gap = row["baseline"], row["gap"]
        table.add_row(
            *(axis.show(row[axis.row_key]) for axis in axes),
            time(row["objective"]),
            time(row["bound"]),
            "—" if gap is None else f"{gap:.3%}",
            str(row["status"]),
            f"{row['runtime_s']:.2f} s",
            *("—" if row[key] is None else show(row[key], unit) for key, (_, show) in columns.items()),
            "—" if best is None else f"{time(row['baseline_objective'])} ({best})",
        )
    return table


#: Keys of a row that are times, with the style of their line and what it is called; those that are there are drawn.
_TIMES = (
    ("objective", "o-", "plan"),
    ("bound", "--", "bound"),
    ("step_per_microbatch", "s--", "plan, whole step"),
    ("baseline_objective", "x:", "best baseline"),
)


def _lines(axes: Sequence[Axis], document: dict[str, Any]) -> tuple[Axis, dict[str, list[dict[str, Any]]]]:
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


def _there(document: dict[str, Any], key: str) -> bool:
    """Whether some row has a value of a key."""
    return any(row.get(key) is not None for row in document["rows"])


def draw_sweep(along: Sequence[Axis], document: dict[str, Any], ax: Axes | None = None) -> Axes:
    """Draw the times of plan, bound and best baseline along the first axis of the grid with several values."""
    found = new_figure(7.0, 4.5).add_subplot() if ax is None else ax
    shown = [entry for entry in _TIMES if _there(document, entry[0])]
    _draw(found, along, document, shown, f"time per microbatch ({document['unit']})")
    return found


def draw_pareto(along: Sequence[Axis], document: dict[str, Any], ax: Axes | None = None) -> Axes:
    """Draw the objective over the first axis of the grid with several values, and the points that none dominates.

    Less of both is better; points without a plan are left out.
    """
    found = new_figure(7.0, 4.5).add_subplot() if ax is None else ax
    first = varied(along, document["rows"])[0]
    rows = [row for row in document["rows"] if row["objective"] is not None and row[first.row_key] is not None]
    x, y = [float(row[first.row_key]) for row in rows], [float(row["objective"]) for row in rows]
    best = front(x, y).tolist()
    found.plot(x, y, "o", color="0.6", label="plans")
    found.step([x[v] for v in best], [y[v] for v in best], "o-", where="post", color="C0", label="not dominated")
    found.set_ylim(bottom=0)
    found.set_xlabel(first.title)
    found.set_ylabel(f"objective ({document['unit']})")
    found.legend(fontsize="small")
    return found


#: Keys of a row of which more is better of both, what people weigh against each other.
_CURVE = (("tokens_per_s_per_user", "tokens/s of a user"), ("tokens_per_s_per_device", "tokens/s of a device"))


def draw_curve(along: Sequence[Axis], document: dict[str, Any], ax: Axes | None = None) -> Axes:
    """Draw what users get against what devices give: a line along the first axis with several values, for each value
    of the others. Points without a plan are left out."""
    found = new_figure(7.0, 4.5).add_subplot() if ax is None else ax
    (across, xlabel), (up, ylabel) = _CURVE
    for name, line in _lines(along, document)[1].items():
        points = sorted((row[across], row[up]) for row in line if row[across] is not None and row[up] is not None)
        found.plot([x for x, _ in points], [y for _, y in points], "o-", label=name or "plans")
    found.set_xlim(left=0)
    found.set_ylim(bottom=0)
    found.set_xlabel(xlabel)
    found.set_ylabel(ylabel)
    found.legend(fontsize="small")
    return found


def save_sweep(path: str, along: Sequence[Axis], document: dict[str, Any]) -> None:
    """Draw a sweep along its axes into a file, whose ending decides the format: times, and where rows have them
    efficiency, or what users get against what devices give.

    ``document`` is what ``report.sweep.sweep_document`` gives.
    """

    efficiency, curve = _there(document, "efficiency"), _there(document, _CURVE[0][0])
    panels = 1 + efficiency + curve
    figure = new_figure(7.0 if panels == 1 else 5.0 * panels, 4.5)
    times, *others = figure.subplots(1, panels, squeeze=False)[0]
    draw_sweep(along, document, times)
    if efficiency:
        # Relative to the smallest point.
        _draw(others[0], along, document, [("efficiency", "o-", "")], "efficiency, relative to the fewest devices")
    if curve:
        draw_curve(along, document, others[-1])
    figure.suptitle(str(document["problem"]["name"]))
    save_figure(figure, path)
