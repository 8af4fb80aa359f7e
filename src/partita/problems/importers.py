"""Reading a problem or plan file of any known format."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from partita.documents.document import document_keys, read_bytes
from partita.errors import FormatError, InputError, UnsupportedError
from partita.problems.hybrid.files.native import read_hybrid_problem
from partita.problems.hybrid.files.piper import read_piper
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.throughput.files.cost_graph import looks_like_cost_graph, read_cost_graph
from partita.problems.throughput.files.dnn_partitioning import read_split, read_throughput
from partita.problems.throughput.files.native import read_native_problem, read_plan
from partita.problems.throughput.plan import Plan
from partita.problems.throughput.problem import ThroughputProblem

__all__ = ["FORMATS", "Format", "detect_format", "read_any_plan", "read_problem"]

Format = Literal["partita", "dnn-partitioning", "piper", "moirai", "cost-graph"]
FORMATS: tuple[Format, ...] = ("partita", "dnn-partitioning", "piper", "moirai", "cost-graph")

#: Keys that only one format has; looked at in this order.
_SIGNATURES: tuple[tuple[Format, frozenset[str]], ...] = (
    ("dnn-partitioning", frozenset({"maxFPGAs", "maxSizePerFPGA", "maxCPUs"})),
    ("piper", frozenset({"maxDevices", "maxMemoryPerDevice"})),
    ("moirai", frozenset({"devices", "flows"})),
)


def detect_format(path: str | Path) -> Format:
    """Recognise a problem file by its keys, or by how it begins.

    Raises
    ------
    FormatError
        If it is none of the known formats.
    """
    data = read_bytes(path)
    if looks_like_cost_graph(data):
        return "cost-graph"
    keys = document_keys(data, path)
    if "format" in keys:
        tag = str(msgspec.json.decode(keys["format"]))
        if tag in (ThroughputProblem.format, HybridProblem.format):
            return "partita"
        hint = "; give it to `partita plan` with a cluster" if tag == "partita.graph" else ""
        raise FormatError(f"{path}: format {tag!r} is not a problem format partita reads here{hint}")
    for name, signature in _SIGNATURES:
        if keys.keys() & signature:
            return name
    raise FormatError(f"{path} is not in a known format; its keys are {', '.join(sorted(keys)[:6]) or 'none'}")


def read_problem(
    path: str | Path,
    format: str | None = None,
    problem: str = "throughput",
    *,
    scale_communication: float = 1.0,
) -> ThroughputProblem | HybridProblem:
    """Read a problem file.

    Parameters
    ----------
    path
        The file.
    format
        One of ``FORMATS``; None recognises it by its content.
    problem
        Which problem a file that states several is read as; so far ``throughput``. Piper files and partita's own hybrid
        files state the hybrid problem only.
    scale_communication
        Factor on every transfer time of the file.

    Raises
    ------
    FormatError
        If the file is malformed.
    InputError
        If the format is unknown or does not state that problem.
    """
    if format is not None and format not in FORMATS:
        raise InputError(f"there is no format {format!r}; known are {', '.join(FORMATS)}")
    if problem not in ("throughput", "hybrid"):
        raise UnsupportedError(f"problem {problem!r} is not solved by this version; use throughput")
    found = format or detect_format(path)
    if found == "dnn-partitioning":
        return read_throughput(path, scale_communication=scale_communication)
    if found == "cost-graph":
        if problem == "hybrid":
            raise UnsupportedError(f"{path}: a cost graph does not state a hybrid problem")
        return read_cost_graph(path, scale_communication=scale_communication)
    if found == "piper":
        return read_piper(path, scale_communication=scale_communication)
    if found == "partita" and _states_hybrid(path):
        return read_hybrid_problem(path).scale_communication(scale_communication)
    if problem == "hybrid":
        raise UnsupportedError(f"{path}: a {found} file does not state a hybrid problem")
    if found == "partita":
        native = read_native_problem(path)
        if scale_communication == 1.0:
            return native
        kinds = tuple(
            msgspec.structs.replace(
                kind,
                transfer_time_per_unit=kind.transfer_time_per_unit * scale_communication,
                transfer_latency=kind.transfer_latency * scale_communication,
                sync_time_per_byte=kind.sync_time_per_byte * scale_communication,
                reload_time_per_byte=kind.reload_time_per_byte * scale_communication,
            )
            for kind in native.kinds
        )
        return native.replace(kinds=kinds)
    raise UnsupportedError(f"{path}: a {found} file states another problem than {problem}; it is not read yet")


def _states_hybrid(path: str | Path) -> bool:
    keys = document_keys(read_bytes(path), path)
    return "format" in keys and msgspec.json.decode(keys["format"]) == HybridProblem.format


def read_any_plan(path: str | Path, problem: ThroughputProblem) -> Plan:
    """Read a plan of a problem: a result file, or a split file of the published format.

    Raises
    ------
    FormatError
        If the file is neither.
    InputError
        If it is not a plan of this problem.
    """
    data = read_bytes(path)
    if "fpgas" in document_keys(data, path):
        return read_split(path, problem, data)
    return read_plan(path, problem)
