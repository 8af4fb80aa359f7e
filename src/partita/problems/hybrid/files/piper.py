"""The piper instance format: layers with tensor-parallel configurations.

Source: the workloads published with Tarnawski et al., "Piper" (NeurIPS 2021). Sizes are bytes, despite the names
``syncTimeFw`` and ``syncTimeBw``. The file does not name its time unit; the bandwidth is in bytes per that unit.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec.structs import asdict

from partita.documents.document import decode
from partita.ground.errors import FormatError
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import HybridProblem


class _Configuration(msgspec.Struct):
    """The fields of ``Configuration`` under the file's names."""

    id: str | int
    time: float = msgspec.field(name="timePerSample")
    weight_bytes: float = msgspec.field(name="parameterSize", default=0.0)
    memory_per_microbatch_bytes: float = msgspec.field(name="memoryUsageA", default=0.0)
    memory_bytes: float = msgspec.field(name="memoryUsageB", default=0.0)
    sync_in_bytes: dict[int, float] = msgspec.field(name="syncTimeFw", default_factory=dict)
    sync_out_bytes: dict[int, float] = msgspec.field(name="syncTimeBw", default_factory=dict)


class _PiperNode(msgspec.Struct):
    id: int
    TMPCs: dict[int, list[_Configuration]]
    name: str = ""


class _Edge(msgspec.Struct):
    source: int = msgspec.field(name="sourceId")
    target: int = msgspec.field(name="destId")
    bytes: float = msgspec.field(name="communicationCost")


class _PiperFile(msgspec.Struct):
    maxDevices: int
    maxMemoryPerDevice: float
    bandwidth: float
    nodes: list[_PiperNode]
    edges: list[_Edge]
    mbsInBatch: int | None = None
    maxBatchSize: int | None = None


def read_piper(data: bytes, path: str | Path, *, scale_communication: float = 1.0) -> HybridProblem:
    """Read a hybrid workload. Keys beside the known ones are ignored; the bandwidth is divided by the scale.

    A file with times in milliseconds and a bandwidth in bytes per second needs a scale of 1000.
    """
    document = decode(data, _PiperFile, path)
    microbatches = document.mbsInBatch if document.mbsInBatch is not None else document.maxBatchSize
    if microbatches is None:
        raise FormatError(
            f"{path}: missing key `mbsInBatch` (or `maxBatchSize`), the number of microbatches in a batch"
        )
    problem = HybridProblem(
        name=Path(path).stem,
        devices=document.maxDevices,
        memory_bytes=document.maxMemoryPerDevice,
        bandwidth_bytes_per_unit=document.bandwidth,
        microbatches=microbatches,
        layers=tuple(
            Layer(
                id=node.id,
                name=node.name,
                configurations={
                    degree: tuple(Configuration(**{**asdict(c), "id": str(c.id)}) for c in choices)
                    for degree, choices in node.TMPCs.items()
                },
            )
            for node in document.nodes
        ),
        edges=tuple(Edge(**asdict(edge)) for edge in document.edges),
    )
    problem = problem.scale_communication(scale_communication)
    return problem.replace(notes=_plausibility(problem))


def _plausibility(problem: HybridProblem) -> tuple[str, ...]:
    """Warn of the units trap: times in milliseconds beside a bandwidth in bytes per second."""
    compute = sum(
        min(choice.time for choices in layer.configurations.values() for choice in choices) for layer in problem.layers
    )
    transfer = sum(2 * edge.bytes for edge in problem.edges) / problem.bandwidth_bytes_per_unit
    if 0 < transfer < 1e-3 * compute:
        return (
            f"moving every tensor takes {transfer / compute:.2g} of the compute time; if the file's times are in "
            "milliseconds and its bandwidth is in bytes per second, use --scale-communication 1000",
        )
    return ()
