"""Throughput problems in the dnn-partitioning instance and split formats: see ``partita.problems.published``."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan, Stage
from partita.problems.published import (
    PublishedDocument,
    communication_note,
    read_document,
    read_rows,
    split_rows,
)
from partita.problems.throughput.devices import DeviceKind
from partita.problems.throughput.evaluation import Evaluation
from partita.problems.throughput.problem import MovedTensor, ThroughputProblem, TimedOperator


def read_throughput(data: bytes, path: str | Path, *, scale_communication: float = 1.0) -> ThroughputProblem:
    """Read a throughput workload. The published layer files give seconds for milliseconds: a scale of 1000 there."""
    document, tensors = read_document(data, path, scale_communication)
    operators = tuple(
        TimedOperator(
            id=node.id,
            times=(node.fpgaLatency if node.supportedOnFpga else None, node.cpuLatency),
            name=node.name,
            backward=bool(node.isBackwardNode),
            colocation=node.colorClass,
            memory_bytes=node.size,
        )
        for node in document.nodes
    )
    per_byte = _time_per_byte(document) * scale_communication
    sizes = {source: cost * scale_communication for source, (cost, _) in tensors.items()}
    return ThroughputProblem(
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
            MovedTensor(producer=source, consumers=tuple(sorted(readers)), size=sizes[source])
            for source, (_, readers) in tensors.items()
        ),
        notes=communication_note(sum(op.times[0] or 0.0 for op in operators), sum(sizes.values())),
    )


def _time_per_byte(document: PublishedDocument) -> float:
    """The file's own bandwidth: the median of cost / size over forward edges that state both; 0 if none does."""
    # The sizes of backward edges disagree with their costs in the published files.
    backward = {node.id for node in document.nodes if node.isBackwardNode}
    ratios = [
        edge.cost / edge.size
        for edge in document.edges
        if edge.sourceId not in backward and isinstance(edge.size, (int, float)) and edge.size > 0 and edge.cost > 0
    ]
    return statistics.median(ratios) if ratios else 0.0


def read_split(data: bytes, path: str | Path, problem: ThroughputProblem) -> Plan:
    """Read a split of a problem with one kind of accelerators and at most one of CPUs.

    A backward operator that is missing goes with its colocation class, as the published program does.
    """

    def check(accelerator: bool, held: int) -> DeviceKind:
        kinds = [kind for kind in problem.kinds if kind.accelerator is accelerator]
        role = "accelerators" if accelerator else "CPUs"
        if len(kinds) != 1:
            raise InputError(f"{path}: a split file needs exactly one kind of {role}, the problem has {len(kinds)}")
        if held > kinds[0].count:
            raise InputError(f"{path}: it uses {held} {role}, problem {problem.name!r} has {kinds[0].count}")
        return kinds[0]

    found = read_rows(data, path, problem, check)
    stages = []
    for accelerator, rows in zip((True, False), found, strict=True):
        if rows:
            kind = check(accelerator, len(rows)).name
            stages += [Stage(kind=kind, devices=(f"{kind}:{i}",), operators=tuple(row)) for i, row in enumerate(rows)]
    return Plan(stages=tuple(stages), contiguity="free")


def split_document(problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> dict[str, Any]:
    """A plan in the published split format, one entry per device of the problem.

    The format cannot say several kinds of accelerators or of CPUs, nor replicas.
    """
    if any(stage.data_parallel > 1 for stage in plan.stages):
        raise InputError("the split format knows no replicas; write the result file instead")
    rows: dict[str, Any] = {}
    for accelerator, key in ((True, "fpgas"), (False, "cpus")):
        kinds = [kind for kind in problem.kinds if kind.accelerator is accelerator and kind.count > 0]
        if len(kinds) > 1:
            raise InputError(f"the split format knows one kind of {key}; problem {problem.name!r} has {len(kinds)}")
        names = {kind.name for kind in kinds}
        held = [
            (stage.load, entry.operators)
            for entry, stage in zip(plan.stages, evaluation.stages, strict=True)
            if entry.kind in names
        ]
        rows[key] = held, kinds[0].count if kinds else 0
    return split_rows(evaluation.objective, rows)
