"""Plans of throughput problems in result files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from partita.documents.document import decode, document_keys, read_bytes, write_json
from partita.ground.errors import InputError
from partita.nouns.pipeline import Contiguity, Plan, Stage
from partita.nouns.split import Split
from partita.problems.facets.files import Files, PlanWriter
from partita.problems.throughput.evaluation import Evaluation, StageEvaluation
from partita.problems.throughput.files.dnn_partitioning import read_split, split_document
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.simulated import pipeline_document


class _ListedStage(msgspec.Struct):
    name: str
    operators: list[int]
    kind: str = "accelerator"
    device_kind: str | None = None
    replica_devices: list[str] = []
    replicas: int | None = None

    @property
    def devices(self) -> list[str]:
        return [self.name, *(name for name in self.replica_devices if name != self.name)]


class _ListedStages(msgspec.Struct):
    devices: list[_ListedStage]
    contiguity: Contiguity = "acyclic"
    stages: list[_ListedStage] | None = None


#: What a stage is worth, under the same names in files.
_FIGURES = ("load", "compute_forward", "compute_backward", "communication_in", "communication_out", "in_flight")


def _stage_document(problem: ThroughputProblem, entry: Stage, stage: StageEvaluation) -> dict[str, Any]:
    return {
        "name": entry.devices[0],
        "kind": "accelerator" if problem.kind_named(entry.kind).accelerator else "cpu",
        "device_kind": entry.kind,
        "operators": list(entry.operators),
        **{name: getattr(stage, name) for name in _FIGURES},
        "replicas": stage.replicas,
        "replica_devices": list(entry.devices),
        "synchronisation": stage.synchronisation,
        "reload": stage.reload,
        "memory_bytes": {**stage.memory.parts, "total": stage.memory.total, "limit": stage.memory.limit},
    }


class ThroughputPlanFiles(Files[ThroughputProblem, Plan, Evaluation]):
    """Result files, and the published split format."""

    writers = (
        PlanWriter(
            "--split-output",
            "SPLIT.json",
            "Write the published split format.",
            lambda path, problem, plan, evaluation: write_json(path, split_document(problem, plan, evaluation)),
        ),
    )

    def plan_document(self, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> dict[str, Any]:
        """One entry per device in use, in pipeline order, and how it runs as a pipeline."""
        stages = zip(plan.stages, evaluation.stages, strict=True)
        return {
            "contiguity": plan.contiguity,
            "pipeline": pipeline_document(problem, plan, evaluation),
            "devices": [_stage_document(problem, entry, stage) for entry, stage in stages],
            "groups": [
                {
                    "name": group.name,
                    "load": group.load,
                    "communication_in": group.transfers.incoming,
                    "communication_out": group.transfers.outgoing,
                }
                for group in evaluation.groups
            ],
        }

    def read_plan(self, path: str | Path, problem: ThroughputProblem) -> Plan:
        """Of a result file, in which empty devices are dropped, or of a split file."""
        data = read_bytes(path)
        if "fpgas" in document_keys(data, path):
            return read_split(data, path, problem)
        return super().read_plan(path, problem)

    def decode_plan(self, data: bytes, problem: ThroughputProblem, path: str | Path) -> Plan:
        document = decode(data, _ListedStages, f"{path}: plan")
        kind_of = {name: problem.kinds[kind].name for name, kind in problem.device_names()}
        stages = []
        for device in (device for device in document.devices if device.operators):
            kind = kind_of.get(device.name)
            if kind is None:
                raise InputError(f"{path}: there is no device {device.name!r} in problem {problem.name!r}")
            names = tuple(device.devices)
            stages.append(Stage(kind=kind, devices=names, operators=tuple(device.operators), data_parallel=len(names)))
        return Plan(stages=tuple(stages), contiguity=document.contiguity)

    def wrote(self, plan: dict[str, Any]) -> bool:
        return "devices" in plan and "contiguity" in plan

    def contradictions(self, data: bytes, split: Split | None, path: str | Path) -> Iterator[str]:
        """The stages once more, and the split."""
        plan = decode(data, _ListedStages, f"{path}: plan")
        for number, device in enumerate(plan.devices):
            if device.replicas is not None and device.operators and device.replicas != len(device.devices):
                yield f"plan.devices[{number}].replicas is {device.replicas}, and it names {len(device.devices)}"
        if plan.stages is not None:
            if len(plan.stages) != len(plan.devices):
                yield f"plan.stages are {len(plan.stages)}, and plan.devices {len(plan.devices)}"
            for number, (stage, device) in enumerate(zip(plan.stages, plan.devices, strict=False)):
                for name in ("name", "kind", "device_kind", "operators", "devices"):
                    if getattr(stage, name) != getattr(device, name):
                        yield f"plan.stages[{number}] and plan.devices[{number}] differ in {name}"
        if split is not None:
            yield from _split_differences([device for device in plan.devices if device.operators], split)


def _split_differences(devices: list[_ListedStage], split: Split) -> Iterator[str]:
    if len(devices) != len(split.stages):
        yield f"split.stages are {len(split.stages)}, and plan.devices with operators {len(devices)}"
        return
    for number, (device, stage) in enumerate(zip(devices, split.stages, strict=True)):
        if device.devices != list(stage.devices):
            here, there = ", ".join(device.devices), ", ".join(stage.devices)
            yield f"plan.devices[{number}] is on {here}, and split.stages[{number}] on {there}"
        if not set(device.operators) <= set(stage.operators):
            missing = min(set(device.operators) - set(stage.operators))
            yield f"plan.devices[{number}] has operator {missing}, and split.stages[{number}] has not"
        if (device.kind == "accelerator") != stage.accelerator:
            yield f"plan.devices[{number}].kind is {device.kind}, and split.stages[{number}] says otherwise"
