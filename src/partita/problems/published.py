"""The dnn-partitioning instance and split formats, whatever problem a file is read as.

Source: the workloads published with Tarnawski et al., NeurIPS 2020 (device-placement). Times are milliseconds, sizes
bytes, an edge's cost is the transfer time of its source's output.

A malformed file (an id repeats or is unknown, an edge is a cycle of one node, a cost is negative or not finite, edges
out of one node disagree) raises ``FormatError``; a scale that is negative or not finite, and a node of a split that is
unknown or placed twice, ``InputError``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from partita.documents.document import decode
from partita.ground.checks import check_scale
from partita.ground.errors import FormatError, InputError

#: Edges out of one node must agree on their cost up to this relative difference.
COST_TOLERANCE = 1e-6


class PublishedNode(msgspec.Struct):
    """One operator of a workload; what is true or false may be written as 1 and 0."""

    id: int
    supportedOnFpga: bool | int
    cpuLatency: float
    fpgaLatency: float
    isBackwardNode: bool | int
    colorClass: int | None = None
    size: float = 0.0
    layerId: int | None = None
    name: str = ""


class PublishedEdge(msgspec.Struct):
    sourceId: int
    destId: int
    cost: float
    size: Any = None


class PublishedDocument(msgspec.Struct):
    maxSizePerFPGA: float
    maxFPGAs: int
    maxCPUs: int
    nodes: list[PublishedNode]
    edges: list[PublishedEdge]


class PublishedDevice(msgspec.Struct):
    nodes: list[int]
    load: float | None = None


class PublishedSplit(msgspec.Struct):
    fpgas: list[PublishedDevice]
    cpus: list[PublishedDevice] = []
    maxLoad: float | None = None


def read_document(
    data: bytes, path: str | Path, scale_communication: float
) -> tuple[PublishedDocument, dict[int, tuple[float, set[int]]]]:
    """A workload, and by producer the transfer time of its output (not scaled) and who reads it."""
    document = decode(data, PublishedDocument, path)
    check_scale(scale_communication)
    ids: set[int] = set()
    for node in document.nodes:
        if node.id in ids:
            raise FormatError(f"{path}: node id {node.id} appears twice; ids must be unique")
        ids.add(node.id)
        for field in ("supportedOnFpga", "isBackwardNode"):
            value = getattr(node, field)
            if value not in (0, 1):
                raise FormatError(f"{path}: node {node.id}: {field} is {value}; it must be true, false, 0 or 1")
    tensors: dict[int, tuple[float, set[int]]] = {}
    for place, edge in enumerate(document.edges):
        owner = f"{path}: edge {place} ({edge.sourceId} → {edge.destId})"
        for end in (edge.sourceId, edge.destId):
            if end not in ids:
                raise FormatError(f"{owner} names node {end}, which does not exist")
        if edge.sourceId == edge.destId:
            raise FormatError(f"{owner} is a cycle of one node; operators must form a DAG")
        _check(owner, "cost", edge.cost)
        known, readers = tensors.setdefault(edge.sourceId, (edge.cost, set()))
        if abs(known - edge.cost) > COST_TOLERANCE * max(known, edge.cost):
            raise FormatError(
                f"{owner}: cost {edge.cost} differs from {known} of another edge out of node {edge.sourceId}; "
                "all edges out of a node carry the same tensor"
            )
        readers.add(edge.destId)
    _check(path, "maxSizePerFPGA", document.maxSizePerFPGA)
    return document, tensors


def _check(owner: str | Path, field: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise FormatError(f"{owner}: {field} is {value}; it must be finite and not negative")


def communication_note(compute: float, transfer: float) -> tuple[str, ...]:
    """What a reader should know where all transfers together take next to no time beside all accelerator times."""
    if 0 < transfer < 1e-3 * compute:
        return (
            f"all transfers together take {transfer / compute:.2%} of the compute time; if the file gives them in "
            "seconds beside milliseconds, use --scale-communication 1000",
        )
    return ()


def read_rows(
    data: bytes, path: str | Path, problem: Any, check: Callable[[bool, int], object]
) -> tuple[list[list[int]], list[list[int]]]:
    """The operators of every accelerator and every CPU of a split that has any, in the order of the file.

    A backward operator that is missing goes with its colocation class, as the published program does. ``check`` is
    called with whether they are accelerators and how many there are, and raises what it wants.
    """
    split = decode(data, PublishedSplit, path)
    operators = {op.id: op for op in problem.operators}
    row_of: dict[int, list[int]] = {}
    found: tuple[list[list[int]], list[list[int]]] = ([], [])
    for accelerator, devices, rows in ((True, split.fpgas, found[0]), (False, split.cpus, found[1])):
        held = [device for device in devices if device.nodes]
        if not held:
            continue
        check(accelerator, len(held))
        for device in held:
            row = list(device.nodes)
            rows.append(row)
            for identity in device.nodes:
                if identity not in operators:
                    raise InputError(f"{path}: node {identity} does not exist in problem {problem.name!r}")
                if identity in row_of:
                    raise InputError(f"{path}: node {identity} is placed twice")
                row_of[identity] = row
    home = {operators[v].colocation: row for v, row in row_of.items() if operators[v].colocation is not None}
    for identity, op in operators.items():
        if identity not in row_of and op.backward and op.colocation in home:
            home[op.colocation].append(identity)
    return found


def split_rows(
    total: float | None, rows: dict[str, tuple[Sequence[tuple[float, Iterable[int]]], int]]
) -> dict[str, Any]:
    """A split in the published format: by key (``fpgas``, ``cpus``) loads and operators, filled up to a number."""
    result: dict[str, Any] = {"maxLoad": total}
    for key, (held, count) in rows.items():
        found = [{"load": load, "nodes": list(ids)} for load, ids in held]
        result[key] = found + [{"load": 0.0, "nodes": []} for _ in range(count - len(found))]
    return result
