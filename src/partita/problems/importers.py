"""Reading a problem file of any known format: a list of importers, asked in turn whether a file is theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import msgspec

from partita.documents.document import document_keys, read_bytes, read_tagged
from partita.documents.result_file import RESULT_FORMAT
from partita.documents.stated import GRAPH_FORMAT
from partita.ground.errors import FormatError, InputError, UnsupportedError
from partita.ground.registry import Shelf
from partita.problems import find_kind, kinds

#: partita's own format: a document tagged with the format of a problem.
NATIVE = "partita"


@dataclass(frozen=True)
class ForeignFormat:
    """A foreign format."""

    name: str  #: As in ``--format``.
    #: By problem the function that reads it (itself, or ``module:function``), the default first: called with the file's
    #: bytes, its path for messages, and ``scale_communication``, a factor on every transfer time. It raises
    #: ``FormatError`` if the file is malformed, naming the file, the object and the value, and ``InputError`` if the
    #: problem is invalid.
    makes: Mapping[str, str | Callable[..., Any]]
    #: A JSON object that has one of these is of this format; empty for formats that are not JSON.
    keys: tuple[str, ...] = ()
    #: The function (likewise) that says whether a file begins like one of this format; None for JSON.
    text: str | Callable[[bytes], bool] | None = None
    #: By setting and value, what the format lacks for it, as the rest of a sentence.
    refusals: Mapping[tuple[str, Any], str] = field(default_factory=dict)


#: Asked in this order.
IMPORTERS: tuple[ForeignFormat, ...] = (
    ForeignFormat(
        "cost-graph",
        {"throughput": "partita.problems.throughput.files.cost_graph:read_cost_graph"},
        text="partita.problems.throughput.files.cost_graph:looks_like_cost_graph",
    ),
    ForeignFormat(
        "dnn-partitioning",
        {
            "throughput": "partita.problems.throughput.files.dnn_partitioning:read_throughput",
            "latency": "partita.problems.latency.files.dnn_partitioning:read_latency",
        },
        keys=("maxFPGAs", "maxSizePerFPGA", "maxCPUs"),
        refusals={
            ("working_memory", "peak"): "gives transfer times instead of bytes of tensors, so peaks of memory mean "
            "nothing; leave out --working-memory peak"
        },
    ),
    ForeignFormat(
        "piper",
        {"hybrid": "partita.problems.hybrid.files.piper:read_piper"},
        keys=("maxDevices", "maxMemoryPerDevice"),
    ),
    ForeignFormat(
        "moirai",
        {"makespan": "partita.problems.makespan.files.moirai:read_moirai"},
        keys=("devices", "flows"),
    ),
    ForeignFormat(
        "helix",
        {"layer_placement": "partita.problems.layer_placement.files.helix:read_helix"},
        keys=("machines", "links"),
    ),
)


class _FileFormats(Shelf[ForeignFormat]):
    """The formats, of which none is called as partita's own."""

    def unfit(self, component: ForeignFormat) -> str:
        if component.name == NATIVE:
            return f"{NATIVE!r} is what partita's own formats are called; give it another name"
        if component.text is None and not component.keys:
            return "nothing says which files are of it; give keys, or text"
        unknown = [name for name in component.makes if name not in {kind.name for kind in kinds()}]
        return f"it makes {unknown[0]} problems, which there are not" if unknown else ""


#: Those of the list and those that were added.
FORMATS = _FileFormats("file format", ForeignFormat, lambda: IMPORTERS, ("name", "makes"))


def _function(found: str | Callable[..., Any]) -> Callable[..., Any]:
    """Itself, or where it is."""
    named: Callable[..., Any] = resolve_name(found) if isinstance(found, str) else found
    return named


def format_names() -> tuple[str, ...]:
    """The formats there are."""
    return (NATIVE, *(importer.name for importer in FORMATS))


#: What else to do with files that are no problems, by their format.
_HINTS = {
    GRAPH_FORMAT: "; give it to `partita plan` with a cluster",
    RESULT_FORMAT: "; it is a result, and `partita plan` writes the problem with --problem-output",
}


def detect_format(data: bytes, path: str | Path) -> str:
    """Recognise the content of a problem file by its keys, or by how it begins; ``FormatError`` if it is none known."""
    for importer in FORMATS:
        if importer.text is not None and _function(importer.text)(data):
            return importer.name
    keys = document_keys(data, path)
    if "format" in keys:
        tag = str(msgspec.json.decode(keys["format"]))
        if any(kind.problem.format == tag for kind in kinds()):
            return NATIVE
        raise FormatError(f"{path}: format {tag!r} is not a problem format partita reads here{_HINTS.get(tag, '')}")
    for importer in FORMATS:
        if any(name in keys for name in importer.keys):
            return importer.name
    raise FormatError(f"{path} is not in a known format; its keys are {', '.join(sorted(keys)[:6]) or 'none'}")


def read_problem(
    path: str | Path, format: str | None = None, problem: str | None = None, *, scale_communication: float = 1.0
) -> Any:
    """Read a problem file.

    ``format`` is one of ``format_names``, or None to recognise it by its content; ``problem`` says which problem a file
    that states several is read as, None for the format's usual one; ``scale_communication`` is a factor on every
    transfer time of the file. A malformed file raises ``FormatError``, a format that is unknown or does not state that
    problem ``InputError``.
    """
    return open_problem(path, format, problem, scale_communication=scale_communication)[0]


def open_problem(
    path: str | Path, format: str | None = None, problem: str | None = None, *, scale_communication: float = 1.0
) -> tuple[Any, ForeignFormat | None]:
    """As ``read_problem``, with the format if it is a foreign one. The file is read once."""
    if format is not None and format not in format_names():
        raise InputError(f"there is no format {format!r}; known are {', '.join(format_names())}")
    if problem is not None:
        find_kind(problem)
    data = read_bytes(path)
    found = format or detect_format(data, path)
    if found == NATIVE:
        return stated_problem(data, path, problem, scale_communication), None
    importer = next(entry for entry in FORMATS if entry.name == found)
    wanted = problem or next(iter(importer.makes), None)
    if wanted is None or wanted not in importer.makes:
        known = f"it states the {' or '.join(importer.makes)} problem" if importer.makes else "it is not read yet"
        such = "such a" if wanted is None else f"a {wanted}"
        raise UnsupportedError(f"{path}: a {found} file does not state {such} problem; {known}")
    return _function(importer.makes[wanted])(data, path, scale_communication=scale_communication), importer


def given_problem(problem: Any) -> Any:
    """A problem, or that of the file with a path."""
    return read_problem(problem) if isinstance(problem, str | Path) else problem


def stated_problem(data: bytes, path: str | Path, problem: str | None = None, scale: float = 1.0) -> Any:
    """The problem of a document in one of partita's own formats, such as that which a result file holds.

    Its transfers are scaled. ``FormatError`` if it is malformed; ``path`` is what messages name.
    """
    keys = document_keys(data, path)
    tag = msgspec.json.decode(keys["format"]) if "format" in keys else None
    kind = next((kind for kind in kinds() if kind.problem.format == tag), None)
    if kind is None:
        # Says what is missing or wrong.
        kind = kinds()[0] if problem is None else find_kind(problem)
    elif problem is not None and problem != kind.name:
        raise UnsupportedError(
            f"{path}: it states a {kind.name} problem, not a {problem} one; leave --problem out, or give it to "
            "`partita solve`"
        )
    found = read_tagged(data, kind.problem, kind.problem.format, kind.problem.version, path)
    if scale == 1.0:
        return found
    if not hasattr(found, "scale_communication"):
        raise InputError(f"{path}: {kind.name} problems have no communication to scale; leave the factor out")
    return found.scale_communication(scale)
