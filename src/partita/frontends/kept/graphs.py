"""Traced graphs that are kept on disk, so that a model is traced once.

A graph is kept under a digest of what the model was named and asked for, of partita's frontends, of the versions of
all that is installed, and of Python. With it is kept what the trace has read beside: files with their content,
variables of the environment, modules. A kept graph counts as long as all of this is the same. Of a user's file that
means all modules of the user's own that it has loaded and all files that it has opened; if it wrote a file, asked the
network or another process, or what it imports was loaded before (and may have been edited since), nothing is kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from partita.frontends.kept.installed import (
    content_of,
    frontends_digest,
    installed_packages,
    is_as_installed,
    is_installed,
    is_installed_module,
    is_of_system,
    own_modules,
    version_of,
)
from partita.frontends.kept.looks import Looks, looking
from partita.frontends.options import Asked
from partita.ground.errors import InputError
from partita.ground.folders import kept_folder
from partita.nouns.graph import Graph

#: Bytes of all kept graphs together; beyond, those that were not used for longest go.
MOST_BYTES = 2**30

#: Of the form of the files, and of what is compared.
_VERSION = 1
_SUFFIX = ".graph"


class ReadBeside(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a trace has read beside its model's name and settings; it comes first in the file of a kept graph."""

    graph: str  #: Digest of the graph's JSON.
    files: dict[str, str | None] = {}  #: Files as they were named, with their content; None for one that was not there.
    environment: dict[str, str | None] = {}  #: Digests of variables, and None for those that were not set.
    modules: tuple[str, ...] = ()  #: Installed modules that the model's classes are of.


def kept(spec: str, asked: Asked, trace: Callable[[], tuple[Graph, frozenset[str]]]) -> Graph:
    """The kept graph of a model; otherwise what ``trace`` returns, which is kept if that is safe.

    ``trace`` returns the graph with the names of the modules that the classes of the model are of.
    """
    folder, key = kept_folder(), _key(spec, asked)
    if folder is None or key is None:
        return trace()[0]
    path = folder / "graphs" / (key + _SUFFIX)
    if (found := _read(path)) is not None:
        return found
    own, began = own_modules(), time.time_ns()
    # What a model of transformers is follows from its name; nothing else that is read counts.
    nothing = contextlib.nullcontext(Looks(anybody=False))
    with nothing if spec.startswith("hf:") else looking(anybody=_of_onnx(spec)) as looks:
        graph, modules = trace()
    text = msgspec.json.encode(graph)
    beside = _beside(spec, hashlib.sha256(text).hexdigest(), modules, looks, own, began)
    if beside is not None and msgspec.json.decode(text, type=Graph) == graph:
        _write(path, msgspec.json.encode(beside) + b"\n" + text)
    return graph


def _of_onnx(spec: str) -> bool:
    return spec.endswith(".onnx") and not spec.startswith("hf:")


def _key(spec: str, asked: Asked) -> str | None:
    """What names a trace; None for one that is not to be kept: a library of the model is worked on."""
    of_onnx = _of_onnx(spec)
    needed = ("onnx",) if of_onnx else ("torch", "transformers") if spec.startswith("hf:") else ("torch",)
    versions = [version_of(package) for package in needed]
    if None in versions:
        return None
    torch = sys.modules.get("torch")
    parts = {
        "version": _VERSION,
        "python": sys.version,
        "partita": frontends_digest(),
        "versions": versions,
        "installed": installed_packages(),
        "model": spec,
        # What a name means depends on the folder that it is looked up in, and what a file imports on the path.
        "where": os.path.abspath(spec.removeprefix("hf:")),
        "path": [] if spec.startswith("hf:") or of_onnx else sys.path,
        "number_format": "torch.float32" if torch is None else str(torch.get_default_dtype()),
        "asked": dataclasses.asdict(asked),
    }
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


def _beside(
    spec: str, digest: str, modules: frozenset[str], looks: Looks, own: dict[str, str], began: int
) -> ReadBeside | None:
    """What a trace has read; None if it cannot be told whether it is the same next time."""
    installed = {name for name in modules if is_installed_module(name)}
    opened = {name for name, path in looks.files.items() if _counts(path)}
    environment: dict[str, str | None] = {}
    if spec.startswith("hf:"):
        # The model is its configuration, in a file or not; what transformers reads beside is about the machine.
        names, settled = {spec[3:]}, installed == modules
    elif _of_onnx(spec):
        names, settled = {spec, *opened}, True
    else:
        names, settled = {spec.rpartition(":")[0], *own_modules().values(), *opened}, not (looks.beyond or own)
        environment = {name: _hidden(value) for name, value in looks.environment.items()}
    # Of what was edited meanwhile nobody knows which text was read.
    if not settled or any(_changed_ns(name) >= began for name in names) or not all(map(is_as_installed, installed)):
        return None
    return ReadBeside(
        graph=digest,
        files={name: content_of(name) for name in sorted(names)},
        environment=environment,
        modules=tuple(sorted(installed)),
    )


def _changed_ns(file: str) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0


def _counts(path: str) -> bool:
    """Whether a file that was opened may be a part of the model; compiled Python goes by its source."""
    return not (is_installed(path) or is_of_system(path) or path.endswith(".pyc") or os.path.isdir(path))


def _hidden(value: str | None) -> str | None:
    """A variable that can be compared but not read: it may be a password."""
    return None if value is None else hashlib.sha256(value.encode(errors="surrogateescape")).hexdigest()


def _holds(beside: ReadBeside) -> bool:
    """Whether all that a trace has read is the same now."""
    environment = all(_hidden(os.environ.get(name)) == value for name, value in beside.environment.items())
    return (
        environment
        and all(content_of(name) == content for name, content in beside.files.items())
        and all(map(is_as_installed, beside.modules))
    )


def _read(path: Path) -> Graph | None:
    """A kept graph, if it is there, whole, and what it was made of is the same."""
    try:
        head, _, text = path.read_bytes().partition(b"\n")
        beside = msgspec.json.decode(head, type=ReadBeside)
        if hashlib.sha256(text).hexdigest() != beside.graph or not _holds(beside):
            return None
        graph = msgspec.json.decode(text, type=Graph)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError, InputError):
        return None
    with contextlib.suppress(OSError):
        # The least recently used go first.
        os.utime(path)
    return graph


def _write(path: Path, data: bytes) -> None:
    """Keep a graph if the disk takes it: whole or not at all, whoever else writes it."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        return
    _make_room(path)


def _make_room(newest: Path) -> None:
    """Remove what was not used for longest beyond the room that there is, and what a killed process left."""
    found: list[tuple[int, int, Path]] = []
    for each in newest.parent.iterdir():
        with contextlib.suppress(OSError):
            known = each.stat()
            if each.suffix == _SUFFIX:
                found.append((known.st_mtime_ns, known.st_size, each))
            elif each.suffix == ".tmp" and known.st_mtime < time.time() - 3600:
                each.unlink()
    room = MOST_BYTES
    for _, size, each in sorted(found, reverse=True):
        room -= size
        if room < 0 and each != newest:
            with contextlib.suppress(OSError):
                each.unlink()
