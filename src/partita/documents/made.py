"""How a document was made, so that others can make it again: versions, the command, and digests of what it read."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from partita.ground.version import __version__

#: Libraries that answers depend on.
LIBRARIES = (
    *("numpy", "numba", "rustworkx", "torch", "transformers", "onnx", "highspy", "ortools", "pyscipopt", "pymetis"),
)


def made(command: Sequence[str] = (), inputs: Iterable[str | Path] = ()) -> dict[str, Any]:
    """The ``made`` of a document: the same wherever the same is installed.

    ``command`` is that of the command line, empty where there was none; ``inputs`` are files that it read, of which the
    digests are kept. What is no file is left out.
    """
    digests = {str(path): _digest(Path(path)) for path in inputs if Path(path).is_file()}
    return {
        "partita": __version__,
        "python": platform.python_version(),
        "libraries": {name: number for name in LIBRARIES if (number := _version(name)) is not None},
        "command": list(command),
        "inputs": digests,
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
