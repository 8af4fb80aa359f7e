"""Answers as something to look at: one HTML file that opens without a network, and a cell of a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from partita.documents.document import write_atomic
from partita.ground.errors import InputError, require
from partita.report.pages.cell import cell_of, simulation_cell, sweep_cell
from partita.report.pages.result import result_page
from partita.report.pages.simulation import simulation_page
from partita.report.pages.subject import form_of, plain, subject_of
from partita.report.pages.sweep import sweep_page

__all__ = ["cell", "page", "write_page"]


def page(document: Mapping[str, Any], name: str = "the document", **settings: Any) -> str:
    """A document of partita as an HTML page that needs no other file and no network.

    Parameters
    ----------
    document
        What ``--output`` of plan, solve, map, compare and sweep writes, or ``simulate --json`` prints. A result shows
        how it runs if it holds its problem, as files do.
    name
        What messages call it, such as the path of its file.
    settings
        How a result's plan is simulated: fields of ``partita.problems.facets.timeline.RunRequest``.

    Raises
    ------
    MissingExtraError
        If plotly is not installed.
    InputError
        If it is another document, or its parts contradict each other.
    """
    require("plotly", "report")
    values = plain(document)
    form = form_of(values, name)
    if settings and form != "result":
        raise InputError(f"{name} is a {form}, which is not simulated; leave {', '.join(settings)} out")
    if form == "sweep":
        return sweep_page(values)
    return simulation_page(values) if form == "simulation" else result_page(subject_of(values, name, settings))


def write_page(path: str | Path, document: Mapping[str, Any], name: str = "the document", **settings: Any) -> None:
    """Write ``page`` to a file, atomically; ``InputError`` if it cannot be written."""
    check_page(path)
    write_atomic(path, page(document, name, **settings).encode())


def check_page(path: str | Path) -> None:
    """Refuse a file that would not be taken for a page; it raises as ``write_page``."""
    ending = Path(path).suffix.lower()
    if ending not in ("", ".html", ".htm"):
        raise InputError(f"{path}: a report is a page of HTML, and its file ends in .html, not {ending}")


def cell(document: Mapping[str, Any]) -> str:
    """A document of partita as a small piece of HTML for a notebook: static, without a program, at most 200 KB.

    It needs no extra; ``InputError`` as for ``page``.
    """
    values = plain(document)
    form = form_of(values)
    if form == "sweep":
        return sweep_cell(values)
    return simulation_cell(values) if form == "simulation" else cell_of(subject_of(values))
