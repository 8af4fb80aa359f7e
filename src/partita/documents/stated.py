"""partita's own documents of graphs and problems: tagged with format and version."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Protocol

from partita.documents.document import read_bytes, read_tagged, tagged, write_json
from partita.ground.errors import InputError
from partita.nouns.graph import Graph


class StatedDocument(Protocol):
    """What is written with its own format: a problem."""

    format: ClassVar[str]
    version: ClassVar[int]


GRAPH_FORMAT = "partita.graph"
GRAPH_VERSION = 1


def read_graph(path: str | Path) -> Graph:
    """Read a ``partita.graph`` file.

    Raises
    ------
    FormatError
        If it is malformed, has an unknown key, or another version.
    """
    return read_tagged(read_bytes(path), Graph, GRAPH_FORMAT, GRAPH_VERSION, path)


def write_graph(path: str | Path, graph: Graph) -> None:
    """Write a ``partita.graph`` file, atomically; the path may also come second."""
    path, graph = _path_first(path, graph, "a graph")
    write_json(path, tagged(graph, GRAPH_FORMAT, GRAPH_VERSION))


def write_problem(path: str | Path, problem: StatedDocument) -> None:
    """Write a problem in the format of its kind, atomically; the path may also come second.

    Raises
    ------
    InputError
        If neither is a path, what is written is no problem, or the place cannot be written.
    """
    path, stated = _path_first(path, problem, "a problem")
    write_json(path, tagged(stated, stated.format, stated.version))


def _path_first(path: Any, value: Any, what: str) -> tuple[str | Path, Any]:
    """The two of them as path and value: nobody mistakes one for the other, so their order does not matter."""
    if isinstance(value, (str, Path)) and not isinstance(path, (str, Path)):
        path, value = value, path
    if not isinstance(path, (str, Path)):
        raise InputError(f"{path!r:.60} is no path of a file; give a path and {what}")
    if not hasattr(value, "__struct_fields__"):
        raise InputError(f"{value!r:.60} is not {what}")
    return path, value
