"""A sweep of hybrid plans as a document, as CSV, as a table, and as a plot."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from partita.errors import InputError, MissingExtraError
from partita.problems.hybrid.report.comparison import degrees_text, stage_degrees
from partita.units import format_bytes, format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from partita.conductor.hybrid_sweep import HybridSweep, HybridSweepRow

__all__ = [
    "hybrid_sweep_csv",
    "hybrid_sweep_document",
    "hybrid_sweep_table",
    "plot_efficiency",
    "plot_times",
    "save_hybrid_sweep",
]


def hybrid_sweep_document(name: str, unit: str, found: HybridSweep) -> dict[str, Any]:
    """``{"format": "partita.sweep", …, "rows": [one per point]}``, with what only hybrid plans have."""
    return {
        "format": "partita.sweep",
        "version": 1,
        "problem": {"name": name},
        "unit": unit,
        "interrupted": found.interrupted,
        "rows": [_row(found, row) for row in found.rows],
    }


def _row(found: HybridSweep, row: HybridSweepRow) -> dict[str, Any]:
    result, step, best = row.result, row.step, row.recipe
    problem = result.problem
    return {
        "devices": problem.devices,
        "memory_bytes": problem.memory_bytes,
        "bandwidth": row.point.bandwidth,
        "microbatches": problem.microbatches,
        "objective": result.objective,
        "bound": None if result.bound is None else result.bound.value,
        "gap": result.gap,
        "status": str(result.status),
        "stop_reason": str(result.stop_reason),
        "runtime_s": result.runtime_s,
        "efficiency": found.efficiency(row),
        "step_per_sample": None if step is None else step.per_sample,
        "bubble": None if step is None else step.bubble,
        "model_flops_utilisation": row.utilisation,
        "used_devices": None if result.plan is None else result.plan.devices,
        "degrees": None if result.plan is None else degrees_text(result.plan),
        "stages": None if result.plan is None else stage_degrees(result.plan),
        "baseline": None if best is None else best.name,
        "baseline_objective": None if best is None or best.evaluation is None else best.evaluation.objective,
        "reason": result.reason or None,
    }


def hybrid_sweep_csv(document: dict[str, Any]) -> str:
    """The rows with a header; what is unknown or infinite is empty. Stages are in words, under ``degrees``."""
    text = io.StringIO()
    rows = [{key: value for key, value in row.items() if key != "stages"} for row in document["rows"]]
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: "" if value is None else value for key, value in row.items()} for row in rows)
    return text.getvalue()


def hybrid_sweep_table(document: dict[str, Any]) -> Table:
    """One row per point; memory and bandwidth are left out where they are the same everywhere."""
    rows, unit = document["rows"], document["unit"]
    table = Table(title="Sweep", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("devices", justify="right", no_wrap=True)
    axes = [axis for axis in ("memory_bytes", "bandwidth") if len({row[axis] for row in rows}) > 1]
    for axis in axes:
        table.add_column({"memory_bytes": "memory"}.get(axis, axis), justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for column in ("per sample", "efficiency", "with bubble", "MFU"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("stages and degrees", overflow="fold", ratio=1)
    table.add_column("best recipe", overflow="fold")

    def time(value: float | None) -> str:
        return "—" if value is None else format_time(value, unit)

    def share(value: float | None) -> str:
        return "" if value is None else f"{value:.1%}"

    for row in rows:
        cells = [str(row["devices"])]
        for axis in axes:
            value = row[axis]
            if axis == "bandwidth":
                cells.append(f"×{value:g}")
            else:
                cells.append("no limit" if value is None else format_bytes(value))
        best = row["baseline_objective"]
        more = "" if best is None or not row["objective"] else f" {best / row['objective'] - 1:+.1%}"
        table.add_row(
            *cells,
            row["status"],
            time(row["objective"]),
            share(row["efficiency"]),
            time(row["step_per_sample"]),
            share(row["model_flops_utilisation"]),
            row["degrees"] or row["reason"] or "—",
            "—" if best is None else f"{row['baseline']}{more}",
        )
    return table


def _lines(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Rows with a plan by what distinguishes their lines, each line by devices."""
    rows = document["rows"]
    axes = [axis for axis in ("memory_bytes", "bandwidth") if len({row[axis] for row in rows}) > 1]
    names = {"memory_bytes": "memory", "bandwidth": "bandwidth"}
    lines: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        parts = []
        for axis in axes:
            value = row[axis]
            shown = f"×{value:g}" if axis == "bandwidth" else ("no limit" if value is None else format_bytes(value))
            parts.append(f"{names[axis]} {shown}")
        line = lines.setdefault(", ".join(parts), [])
        if row["objective"] is not None:
            line.append(row)
    return {name: sorted(line, key=lambda row: row["devices"]) for name, line in lines.items()}


def plot_times(document: dict[str, Any], ax: Axes) -> Axes:
    """Time per sample over devices: the plan, with its bubble, the best recipe, and perfect scaling."""
    lines = _lines(document)
    for number, (name, line) in enumerate(lines.items()):
        x = [row["devices"] for row in line]
        for place, (key, style, what) in enumerate(
            (
                ("objective", "o-", "plan, steady state"),
                ("step_per_sample", "s--", "plan, whole step"),
                ("baseline_objective", "x:", "best recipe, steady state"),
            )
        ):
            y = [float("nan") if row[key] is None else row[key] for row in line]
            # One line has a colour for each quantity, several have one for each line.
            color = f"C{(number if len(lines) > 1 else place) % 10}"
            ax.plot(x, y, style, color=color, label=", ".join(part for part in (what, name) if part))
        if line:
            first = line[0]["objective"] * line[0]["devices"]
            label = "perfect scaling" if number == 0 else None
            ax.plot(x, [first / devices for devices in x], "-", color="0.7", zorder=0, label=label)
    ax.set_yscale("log")
    ax.set_ylabel(f"time per sample ({document['unit']})")
    return _finish(document, ax)


def plot_efficiency(document: dict[str, Any], ax: Axes) -> Axes:
    """Efficiency relative to the smallest point over devices."""
    highest = 1.0
    for number, (name, line) in enumerate(_lines(document).items()):
        y = [row["efficiency"] for row in line]
        highest = max([highest, *y])
        ax.plot([row["devices"] for row in line], y, "o-", color=f"C{number % 10}", label=name or "steady state")
    ax.set_ylim(0, 1.05 * highest)
    ax.set_ylabel("efficiency, relative to the fewest devices")
    return _finish(document, ax)


def _finish(document: dict[str, Any], ax: Axes) -> Axes:
    """The axis of devices, with the numbers that were swept, and the legend."""
    devices = sorted({row["devices"] for row in document["rows"]})
    ax.set_xscale("log", base=2)
    ax.set_xticks(devices, labels=[str(count) for count in devices])
    ax.minorticks_off()
    ax.set_xlabel("devices")
    ax.legend(fontsize="small")
    return ax


def save_hybrid_sweep(path: str, document: dict[str, Any]) -> None:
    """Draw times and efficiency into a file; its ending decides the format.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    InputError
        If the ending is no image format or the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot") from error
    figure = Figure(figsize=(10.0, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    plot_times(document, left)
    plot_efficiency(document, right)
    figure.suptitle(str(document["problem"]["name"]))
    try:
        figure.savefig(path, dpi=150)
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: the plot cannot be written: {error}") from error
