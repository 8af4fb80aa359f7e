"""Plans for the runtimes that people use: one exporter for each, in one list."""

from __future__ import annotations

from partita.errors import InputError
from partita.exporters.exporter import Exporter

EXPORTERS: tuple[Exporter, ...] = ()


def find_exporter(name: str) -> Exporter:
    """The exporter of a runtime.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    for exporter in EXPORTERS:
        if exporter.name == name:
            return exporter
    raise InputError(f"there is no exporter {name!r}; known are {', '.join(exporter.name for exporter in EXPORTERS)}")
