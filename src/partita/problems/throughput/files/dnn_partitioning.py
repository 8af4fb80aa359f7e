"""The dnn-partitioning instance and split formats.

Source: the workloads published with Tarnawski et al., NeurIPS 2020 (device-placement). Times are milliseconds, sizes
bytes, an edge's cost is the transfer time of its source's output.
"""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import msgspec

from partita.documents.document import decode
from partita.errors import FormatError, InputError
from partita.problems.throughput.devices import DeviceKind
from partita.problems.throughput.evaluation import Evaluation
from partita.problems.throughput.plan import Plan, Stage
from partita.problems.throughput.problem import Operator, Tensor, ThroughputProblem

#: Edges out of one node must agree on their cost up to this relative difference.
COST_TOLERANCE = 1e-6


class _Node(msgspec.Struct):
    id: int
    supportedOnFpga: bool | int
    cpuLatency: float
    fpgaLatency: float
    isBackwardNode: bool | int
    colorClass: int | None = None
    size: float = 0.0
    layerId: int | None = None
    name: str = ""


class _Edge(msgspec.Struct):
    sourceId: int
    destId: int
    cost: float
    size: Any = None


class _Document(msgspec.Struct):
    maxSizePerFPGA: float
    maxFPGAs: int
    maxCPUs: int
    nodes: list[_Node]
    edges: list[_Edge]


class _Device(msgspec.Struct):
    nodes: list[int]
    load: float | None = None


class _Split(msgspec.Struct):
    fpgas: list[_Device]
    cpus: list[_Device] = []
    maxLoad: float | None = None


def read_throughput(data: bytes, path: str | Path, *, scale_communication: float = 1.0) -> ThroughputProblem:
    """Read a throughput workload. The published layer files give seconds for milliseconds: a scale of 1000 there."""
    document = decode(data, _Document, path)
    if not (math.isfinite(scale_communication) and scale_communication >= 0):
        raise InputError(f"the communication scale is {scale_communication}; it must be finite and not negative")
    ids: set[int] = set()
    for node in document.nodes:
        if node.id in ids:
            raise FormatError(f"{path}: node id {node.id} appears twice; ids must be unique")
        ids.add(node.id)
    operators = tuple(
        Operator(
            id=node.id,
            times=(node.fpgaLatency if _flag(path, node, "supportedOnFpga") else None, node.cpuLatency),
            name=node.name,
            backward=_flag(path, node, "isBackwardNode"),
            colocation=node.colorClass,
            memory_bytes=node.size,
        )
        for node in document.nodes
    )
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
    per_byte = _time_per_byte(document) * scale_communication
    problem = ThroughputProblem(
        name=Path(path).stem,
        unit="ms",
        kinds=(
            DeviceKind(
                name="accelerator",
                count=document.maxFPGAs,
                memory_bytes=document.maxSizePerFPGA,
                sync_time_per_byte=per_byte,
                reload_time_per_byte=per_byte,
            ),
            DeviceKind(name="cpu", count=document.maxCPUs, accelerator=False, transfer_time_per_unit=0.0),
        ),
        operators=operators,
        tensors=tuple(
            Tensor(producer=source, consumers=tuple(sorted(readers)), size=cost * scale_communication)
            for source, (cost, readers) in tensors.items()
        ),
    )
    return problem.replace(notes=_plausibility(problem))


def _time_per_byte(document: _Document) -> float:
    """The file's own bandwidth: the median of cost / size over forward edges that state both; 0 if none does.

    The sizes of backward edges disagree with their costs in the published files.
    """
    backward = {node.id for node in document.nodes if node.isBackwardNode}
    ratios = [
        edge.cost / edge.size
        for edge in document.edges
        if edge.sourceId not in backward and isinstance(edge.size, (int, float)) and edge.size > 0 and edge.cost > 0
    ]
    return statistics.median(ratios) if ratios else 0.0


def _flag(path: str | Path, node: _Node, field: str) -> bool:
    value = getattr(node, field)
    if value not in (0, 1):
        raise FormatError(f"{path}: node {node.id}: {field} is {value}; it must be true, false, 0 or 1")
    return bool(value)


def _check(owner: str | Path, field: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise FormatError(f"{owner}: {field} is {value}; it must be finite and not negative")


def _plausibility(problem: ThroughputProblem) -> tuple[str, ...]:
    compute = sum(op.times[0] or 0.0 for op in problem.operators)
    transfer = sum(tensor.size for tensor in problem.tensors)
    if 0 < transfer < 1e-3 * compute:
        return (
            f"all transfers together take {transfer / compute:.2%} of the compute time; if the file gives them in "
            "seconds beside milliseconds, use --scale-communication 1000",
        )
    return ()


def read_split(data: bytes, path: str | Path, problem: ThroughputProblem) -> Plan:
    """Read a split of a problem with one kind of accelerators and at most one of CPUs.

    A backward operator that is missing goes with its colocation class, as the published program does.
    """
    split = decode(data, _Split, path)
    operators = {op.id: op for op in problem.operators}
    row_of: dict[int, list[int]] = {}
    rows: list[tuple[str, int, list[int]]] = []
    for accelerator, devices in ((True, split.fpgas), (False, split.cpus)):
        held = [device for device in devices if device.nodes]
        kinds = [kind for kind in problem.kinds if kind.accelerator is accelerator]
        role = "accelerators" if accelerator else "CPUs"
        if not held:
            continue
        if len(kinds) != 1:
            raise InputError(f"{path}: a split file needs exactly one kind of {role}, the problem has {len(kinds)}")
        if len(held) > kinds[0].count:
            raise InputError(f"{path}: it uses {len(held)} {role}, problem {problem.name!r} has {kinds[0].count}")
        for number, device in enumerate(held):
            row = list(device.nodes)
            rows.append((kinds[0].name, number, row))
            for identity in device.nodes:
                if identity not in operators:
                    raise InputError(f"{path}: node {identity} does not exist in problem {problem.name!r}")
                if identity in row_of:
                    raise InputError(f"{path}: node {identity} is placed twice")
                row_of[identity] = row
    home = {operators[v].colocation: row for v, row in row_of.items() if operators[v].colocation is not None}
    for op in problem.operators:
        if op.id not in row_of and op.backward and op.colocation in home:
            home[op.colocation].append(op.id)
    stages = (Stage(device=f"{kind}:{number}", kind=kind, operators=tuple(row)) for kind, number, row in rows)
    return Plan(stages=tuple(stages), contiguity="free")


def split_document(problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> dict[str, Any]:
    """A plan in the published split format, one entry per device of the problem.

    The format cannot say several kinds of accelerators or of CPUs, nor replicas.
    """
    if any(stage.replicas for stage in plan.stages):
        raise InputError("the split format knows no replicas; write the result file instead")
    result: dict[str, Any] = {"maxLoad": evaluation.objective}
    for accelerator, key in ((True, "fpgas"), (False, "cpus")):
        kinds = [kind for kind in problem.kinds if kind.accelerator is accelerator and kind.count > 0]
        if len(kinds) > 1:
            raise InputError(f"the split format knows one kind of {key}; problem {problem.name!r} has {len(kinds)}")
        names = {kind.name for kind in kinds}
        rows = [
            {"load": stage.load, "nodes": list(entry.operators)}
            for entry, stage in zip(plan.stages, evaluation.stages, strict=True)
            if entry.kind in names
        ]
        total = kinds[0].count if kinds else 0
        rows += [{"load": 0.0, "nodes": []} for _ in range(total - len(rows))]
        result[key] = rows
    return result
