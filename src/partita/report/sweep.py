"""A sweep as a document, as CSV, and as a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from partita.documents.tables.text import new_table
from partita.ground.units import format_time
from partita.problems.facets.sweep import Axis, Sweep

if TYPE_CHECKING:
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
