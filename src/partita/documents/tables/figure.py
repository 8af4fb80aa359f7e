"""Figures of matplotlib: made where it is installed, and saved with a message where they cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partita.ground.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, its sides in inches.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot") from error
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: str) -> None:
    """Write a figure; the ending of the path decides the format.

    Raises
    ------
    InputError
        If the ending is no image format or the file cannot be written.
    """
    try:
        figure.savefig(path, dpi=150)
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: the plot cannot be written: {error}") from error
