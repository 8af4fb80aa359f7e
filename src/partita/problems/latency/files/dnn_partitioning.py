"""Latency problems in the dnn-partitioning instance and split formats: see ``partita.problems.published``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from partita.ground.errors import InputError
from partita.problems.latency.evaluate import LatencyEvaluation
from partita.problems.latency.plan import LatencyPlan, complete, on_accelerators
from partita.problems.latency.problem import LatencyOperator, LatencyProblem
from partita.problems.published import communication_note, read_document, read_rows, split_rows


def read_latency(data: bytes, path: str | Path, *, scale_communication: float) -> LatencyProblem:
    """Read a workload. Its number of CPUs is ignored: the problem has cores enough.

    Raises ``FormatError`` if the file is malformed; ``InputError`` if the problem, or the scale, is invalid.
    """
    document, tensors = read_document(data, path, scale_communication)
    times = {source: cost * scale_communication for source, (cost, _) in tensors.items()}
    operators = tuple(
        LatencyOperator(
            id=node.id,
            cpu_time=node.cpuLatency,
            accelerator_time=node.fpgaLatency if node.supportedOnFpga else None,
            transfer_time=times.get(node.id, 0.0),
            memory_bytes=node.size,
            colocation=node.colorClass,
            backward=bool(node.isBackwardNode),
            name=node.name,
        )
        for node in document.nodes
    )
    return LatencyProblem(
        name=Path(path).stem,
        unit="ms",
        notes=communication_note(sum(op.accelerator_time or 0.0 for op in operators), sum(times.values())),
        accelerators=document.maxFPGAs,
        memory_bytes=document.maxSizePerFPGA,
        operators=operators,
        edges=tuple((source, target) for source, (_, readers) in tensors.items() for target in sorted(readers)),
    )


def read_split(data: bytes, path: str | Path, problem: LatencyProblem) -> LatencyPlan:
    """Read a split, cut into pieces; all CPUs are one.

    Raises ``FormatError`` if the file is malformed; ``InputError`` if it uses more accelerators than there are, or an
    operator is unknown, placed twice, or nowhere.
    """

    def check(accelerator: bool, held: int) -> None:
        if accelerator and held > problem.accelerators:
            raise InputError(
                f"{path}: it uses {held} accelerators, problem {problem.name!r} has {problem.accelerators}"
            )

    accelerators, cpus = read_rows(data, path, problem, check)
    missing = {op.id for op in problem.operators} - {identity for row in (*accelerators, *cpus) for identity in row}
    if missing:
        raise InputError(f"{path}: node {min(missing)} is on no device ({len(missing)} are missing)")
    return complete(problem, on_accelerators(accelerators))


def split_document(problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation) -> dict[str, Any]:
    """A plan in the published split format: an accelerator's load is the time it is busy, ``maxLoad`` the latency."""
    held = [
        (sum(piece.duration for piece in worth.pieces), [v for piece in row for v in piece])
        for row, worth in zip(plan.accelerators, evaluation.accelerators, strict=True)
    ]
    placed = {v for _, row in held for v in row}
    rest = [op for op in problem.operators if op.id not in placed]
    cpu = [(sum(op.cpu_time for op in rest), [op.id for op in rest])] if rest else []
    return split_rows(evaluation.objective, {"fpgas": (held, problem.accelerators), "cpus": (cpu, 1)})
