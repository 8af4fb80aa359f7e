"""Plots, made with matplotlib (extra ``plot``); nothing here touches global state or a display."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partita.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_sweep", "save_sweep"]

_AXES = {"devices": "devices", "memory_bytes": "memory per device (bytes)", "bandwidth": "bandwidth (factor)"}


def plot_sweep(document: dict[str, Any], ax: Axes | None = None) -> Axes:
    """Objective, bound and best baseline over the first axis of the grid with several values.

    Parameters
    ----------
    document
        What ``reports.sweep.sweep_document`` gives. Points without a plan leave a hole.
    ax
        Where to draw; None makes a figure.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    if ax is None:
        ax = _figure().subplots()
    rows: list[dict[str, Any]] = document["rows"]
    several = [axis for axis in _AXES if len({row[axis] for row in rows}) > 1] or ["devices"]
    first, others = several[0], several[1:]
    lines: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        lines.setdefault(tuple(row[axis] for axis in others), []).append(row)
    for number, (values, line) in enumerate(lines.items()):
        line = sorted((row for row in line if row[first] is not None), key=lambda row: row[first])
        label = ", ".join(
            f"{axis} {'no limit' if value is None else f'{value:g}'}"
            for axis, value in zip(others, values, strict=True)
        )
        x, color = [row[first] for row in line], f"C{number % 10}"
        for key, style, what in (
            ("objective", "o-", "plan"),
            ("bound", "--", "bound"),
            ("baseline_objective", "x:", "best baseline"),
        ):
            y = [float("nan") if row[key] is None else row[key] for row in line]
            ax.plot(x, y, style, color=color, label=f"{what} {label}".strip())
    ax.set_xlabel(_AXES[first])
    ax.set_ylabel(f"time per sample ({document['unit']})")
    ax.set_title(str(document["problem"]["name"]))
    ax.set_ylim(bottom=0)
    ax.legend(fontsize="small")
    return ax


def _figure() -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot") from error
    return Figure(figsize=(7.0, 4.5), layout="constrained")


def save_sweep(path: str, document: dict[str, Any]) -> None:
    """Draw a sweep into a file; its ending decides the format.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    InputError
        If the ending is no image format or the file cannot be written.
    """
    from partita.errors import InputError

    figure = _figure()
    plot_sweep(document, figure.subplots())
    try:
        figure.savefig(path, dpi=150)
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: the plot cannot be written: {error}") from error
