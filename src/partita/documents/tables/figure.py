"""Figures of matplotlib: ``MissingExtraError`` where it is not installed, ``InputError`` where they cannot be saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partita.ground.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, its sides in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot") from error
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: str) -> None:
    """Write a figure; the ending of the path decides the format."""
    try:
        figure.savefig(path, dpi=150)
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: the plot cannot be written: {error}") from error
