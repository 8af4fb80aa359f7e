"""Plans of throughput problems in result files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from partita.documents.document import decode, document_keys, read_bytes, write_json
from partita.documents.result_file import read_plan_bytes
from partita.errors import InputError
from partita.problems.facets.files import Files, PlanWriter
from partita.problems.throughput.evaluation import Evaluation, StageEvaluation
from partita.problems.throughput.files.dnn_partitioning import read_split, split_document
from partita.problems.throughput.plan import Contiguity, Plan, Stage
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.sample_latency import pipeline_of
from partita.problems.throughput.simulated import simulated_pipeline


class _PlanDevice(msgspec.Struct):
    name: str
    operators: list[int]
    kind: str = "accelerator"
    device_kind: str | None = None
    replica_devices: list[str] = []


class _PlanDocument(msgspec.Struct):
    devices: list[_PlanDevice]
    contiguity: Contiguity = "acyclic"


def read_plan(path: str | Path, problem: ThroughputProblem) -> Plan:
    """The plan of a result file, as a plan of a problem; empty devices are dropped."""
    document = decode(read_plan_bytes(path), _PlanDocument, f"{path}: plan")
    kind_of = {name: problem.kinds[kind].name for name, kind in problem.device_names()}
    stages = []
    for device in document.devices:
        if not device.operators:
            continue
        kind = kind_of.get(device.name)
        if kind is None:
            raise InputError(f"{path}: there is no device {device.name!r} in problem {problem.name!r}")
        others = tuple(name for name in device.replica_devices if name != device.name)
        stages.append(Stage(device=device.name, kind=kind, operators=tuple(device.operators), replicas=others))
    return Plan(stages=tuple(stages), contiguity=document.contiguity)


#: What a stage is worth, under the same names in files.
_FIGURES = ("load", "compute_forward", "compute_backward", "communication_in", "communication_out", "in_flight")


def _stage_document(problem: ThroughputProblem, entry: Stage, stage: StageEvaluation) -> dict[str, Any]:
    accelerator = next(kind.accelerator for kind in problem.kinds if kind.name == entry.kind)
    return {
        "name": entry.device,
        "kind": "accelerator" if accelerator else "cpu",
        "device_kind": entry.kind,
        "operators": list(entry.operators),
        **{name: getattr(stage, name) for name in _FIGURES},
        "replicas": stage.replicas,
        "replica_devices": list(entry.devices),
        "synchronisation": stage.synchronisation,
        "reload": stage.reload,
        "memory_bytes": {**stage.memory.parts, "total": stage.memory.total, "limit": stage.memory.limit},
    }


def _write_split(path: str, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> None:
    write_json(path, split_document(problem, plan, evaluation))


class PlanFiles(Files[ThroughputProblem, Plan, Evaluation]):
    """Result files, and the published split format."""

    writers = (PlanWriter("--split-output", "SPLIT.json", "Write the published split format.", _write_split),)

    def plan_document(self, problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> dict[str, Any]:
        """One entry per device in use, in pipeline order, and how it runs as a pipeline."""
        stages = zip(plan.stages, evaluation.stages, strict=True)
        run = simulated_pipeline(problem, plan, evaluation)
        pipeline = msgspec.structs.asdict(pipeline_of(problem, plan, evaluation)) if run is None else run.document()
        return {
            "contiguity": plan.contiguity,
            "pipeline": pipeline,
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
        """Of a result file or a split file."""
        data = read_bytes(path)
        if "fpgas" in document_keys(data, path):
            return read_split(data, path, problem)
        return read_plan(path, problem)
