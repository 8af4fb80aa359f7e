"""The moirai instance format: operators, flows and devices of the published spreadsheets.

Source: the workloads published with "Moirai" (2023). Times are milliseconds, memory is counted in bits and stays so.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from partita.documents.document import decode
from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanProblem


class _Device(msgspec.Struct):
    memory_bits: float | None = None
    name: str = ""


class _Operator(msgspec.Struct):
    id: int
    time_ms: tuple[float | None, ...]
    memory_bits: float = 0.0
    name: str = ""
    type: str = ""


class _Flow(msgspec.Struct):
    id: int
    source: int
    target: int
    time_ms: tuple[tuple[float, ...], ...]


class _Workload(msgspec.Struct):
    devices: list[_Device]
    operators: list[_Operator]
    flows: list[_Flow]
    precedence: list[tuple[int, int]] = []


def read_moirai(data: bytes, path: str | Path, *, scale_communication: float = 1.0) -> MakespanProblem:
    """Read a makespan problem; keys beside the known ones are ignored, transfer times multiplied by the scale.

    Times stay milliseconds, memory stays in bits; devices without a name are called by their number. Operators may say
    their ``type``, which the published ones do not.

    Raises ``FormatError`` if the file is malformed; ``InputError`` if the problem is invalid.
    """
    document = decode(data, _Workload, path)
    problem = MakespanProblem(
        name=Path(path).stem,
        unit="ms",
        devices=tuple(
            Device(name=device.name or f"device {number}", memory=device.memory_bits)
            for number, device in enumerate(document.devices)
        ),
        operators=tuple(
            MakespanOperator(id=op.id, name=op.name, times=op.time_ms, memory=op.memory_bits, type=op.type)
            for op in document.operators
        ),
        flows=tuple(
            MakespanFlow(id=flow.id, source=flow.source, target=flow.target, times=flow.time_ms)
            for flow in document.flows
        ),
        precedence=tuple(document.precedence),
        memory_unit="bits",
        notes=("times are in milliseconds, memory is in bits, as in the file",),
    )
    return problem.scale_communication(scale_communication)
