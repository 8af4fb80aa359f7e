"""A sweep as a document, as CSV, and as a table."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from partita.units import format_bytes, format_time

if TYPE_CHECKING:
    from partita.conductor.sweep import Sweep

__all__ = ["sweep_csv", "sweep_document", "sweep_table"]


def sweep_document(name: str, unit: str, found: Sweep) -> dict[str, Any]:
    """``{"format": "partita.sweep", …, "rows": [one per point]}``."""
    return {
        "format": "partita.sweep",
        "version": 1,
        "problem": {"name": name},
        "unit": unit,
        "interrupted": found.interrupted,
        "rows": [row.document() for row in found.rows],
    }


def sweep_csv(found: Sweep) -> str:
    """The rows with a header; what is unknown or infinite is empty."""
    text = io.StringIO()
    rows = [row.document() for row in found.rows]
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: "" if value is None else value for key, value in row.items()} for row in rows)
    return text.getvalue()


def sweep_table(unit: str, found: Sweep) -> Table:
    """One row per point; columns whose value is the same everywhere are left out."""
    rows = [row.document() for row in found.rows]
    table = Table(title="Sweep", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    axes = [axis for axis in ("devices", "memory_bytes", "bandwidth") if len({row[axis] for row in rows}) > 1]
    names = {"devices": "devices", "memory_bytes": "memory", "bandwidth": "bandwidth"}
    for axis in axes or ["devices"]:
        table.add_column(names[axis], justify="right", no_wrap=True)
    for column in ("objective", "bound", "gap", "status", "runtime", "latency", "best baseline"):
        table.add_column(column, justify="left" if column in ("status", "best baseline") else "right", no_wrap=True)

    def time(value: Any) -> str:
        return "—" if value is None else format_time(value, unit)

    for row in rows:
        cells = []
        for axis in axes or ["devices"]:
            value: Any = row[axis]
            if axis == "memory_bytes":
                cells.append("no limit" if value is None else format_bytes(value))
            else:
                cells.append(f"×{value:g}" if axis == "bandwidth" else str(value))
        best, gap, seconds = row["baseline"], row["gap"], row["runtime_s"]
        table.add_row(
            *cells,
            time(row["objective"]),
            time(row["bound"]),
            "—" if gap is None else f"{gap:.3%}",
            str(row["status"]),
            f"{seconds:.2f} s",
            time(row["latency"]),
            "—" if best is None else f"{time(row['baseline_objective'])} ({best})",
        )
    return table
