"""partita's own documents of graphs and problems: tagged with format and version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from partita.documents.document import read_bytes, read_tagged, tagged, write_json
from partita.graph import Graph

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
    """Write a ``partita.graph`` file, atomically."""
    write_json(path, tagged(graph, GRAPH_FORMAT, GRAPH_VERSION))


def write_problem(path: str | Path, problem: Any) -> None:
    """Write a problem in the format of its kind, atomically."""
    write_json(path, tagged(problem, problem.format, problem.version))
