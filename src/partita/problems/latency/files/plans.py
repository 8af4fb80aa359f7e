"""Plans of latency problems in result files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from partita.documents.document import decode, document_keys, read_bytes, write_json
from partita.ground.errors import InputError
from partita.problems.facets.files import Files, PlanWriter
from partita.problems.latency.evaluate import LatencyEvaluation
from partita.problems.latency.files.dnn_partitioning import read_split, split_document
from partita.problems.latency.plan import LatencyPlan, homes
from partita.problems.latency.problem import LatencyProblem


class _PiecedDevice(msgspec.Struct):
    name: str
    kind: str
    operators: list[int]
    pieces: list[list[int]] = []


class _PiecedPlan(msgspec.Struct):
    devices: list[_PiecedDevice]


class LatencyPlanFiles(Files[LatencyProblem, LatencyPlan, LatencyEvaluation]):
    """Result files, and the published split format."""

    writers = (
        PlanWriter(
            *("--split-output", "SPLIT.json", "Write the published split format."),
            lambda path, *worth: write_json(path, split_document(*worth)),
        ),
    )

    def plan_document(
        self, problem: LatencyProblem, plan: LatencyPlan, evaluation: LatencyEvaluation
    ) -> dict[str, Any]:
        """Every accelerator with its pieces in the order in which they run, the CPU, and the critical path."""
        devices: list[dict[str, Any]] = []
        for number, (row, worth) in enumerate(zip(plan.accelerators, evaluation.accelerators, strict=True)):
            devices.append(
                {
                    "name": f"accelerator:{number}",
                    "kind": "accelerator",
                    "operators": [v for piece in row for v in piece],
                    "pieces": [list(piece) for piece in row],
                    "times": [msgspec.to_builtins(piece) | {"end": piece.end} for piece in worth.pieces],
                    "memory_bytes": {"total": worth.memory_bytes, "limit": problem.memory_bytes},
                }
            )
        placed = homes(problem, plan)
        rest = [op.id for op in problem.operators if op.id not in placed]
        devices.append({"name": "cpu:0", "kind": "cpu", "operators": rest})
        return {"devices": devices, "critical_path": msgspec.to_builtins(evaluation.critical_path)}

    def read_plan(self, path: str | Path, problem: LatencyProblem) -> LatencyPlan:
        """Of a result file or a split file."""
        data = read_bytes(path)
        if "fpgas" in document_keys(data, path):
            return read_split(data, path, problem)
        return super().read_plan(path, problem)

    def decode_plan(self, data: bytes, problem: LatencyProblem, path: str | Path) -> LatencyPlan:
        document = decode(data, _PiecedPlan, f"{path}: plan")
        accelerators: list[tuple[tuple[int, ...], ...]] = []
        listed: set[int] = set()
        for device in document.devices:
            if device.kind not in ("accelerator", "cpu"):
                raise InputError(f"{path}: device {device.name!r} is a {device.kind!r}; it must be accelerator or cpu")
            inside = [v for piece in device.pieces for v in piece]
            if device.kind == "accelerator":
                if sorted(inside) != sorted(device.operators):
                    raise InputError(f"{path}: the pieces of device {device.name!r} are not its operators")
                accelerators.append(tuple(tuple(piece) for piece in device.pieces))
            elif inside:
                raise InputError(f"{path}: device {device.name!r} is a CPU and has pieces; CPUs have none")
            for v in device.operators:
                if v in listed:
                    raise InputError(f"{path}: operator {v} is placed twice")
                listed.add(v)
        plan = LatencyPlan(accelerators=tuple(accelerators))
        homes(problem, plan)
        known = {op.id for op in problem.operators}
        if listed != known:
            wrong = min(listed ^ known)
            what = "is on no device" if wrong in known else f"does not exist in problem {problem.name!r}"
            raise InputError(f"{path}: operator {wrong} {what}")
        return plan
