"""partita's own documents: graphs, problems, and results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from partita.documents.document import decode, read_bytes, read_tagged, sha256, tagged, write_json
from partita.documents.result_file import read_plan_bytes, result_envelope
from partita.errors import InputError
from partita.graph import Graph
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.throughput.evaluate import Evaluation, StageEvaluation
from partita.problems.throughput.plan import Contiguity, Plan, Stage
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.sample_latency import pipeline_of
from partita.run.result import Result

__all__ = [
    "plan_document",
    "read_graph",
    "read_native_problem",
    "read_plan",
    "result_document",
    "write_graph",
    "write_problem",
]

GRAPH_FORMAT = "partita.graph"
GRAPH_VERSION = 1


def read_graph(path: str | Path) -> Graph:
    """Read a ``partita.graph`` file.

    Raises
    ------
    FormatError
        If it is malformed, has an unknown key, or another version.
    """
    return read_tagged(read_bytes(path), Graph, GRAPH_FORMAT, GRAPH_VERSION, path)


def write_graph(path: str | Path, graph: Graph) -> None:
    """Write a ``partita.graph`` file, atomically."""
    write_json(path, tagged(graph, GRAPH_FORMAT, GRAPH_VERSION))


def read_native_problem(path: str | Path) -> ThroughputProblem:
    """Read a ``partita.problem`` file.

    Raises
    ------
    FormatError
        If it is malformed, has an unknown key, or another version.
    """
    return read_tagged(read_bytes(path), ThroughputProblem, ThroughputProblem.format, ThroughputProblem.version, path)


def write_problem(path: str | Path, problem: ThroughputProblem | HybridProblem) -> None:
    """Write a ``partita.problem`` or ``partita.hybrid`` file, atomically."""
    write_json(path, tagged(problem, problem.format, problem.version))


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
    """The plan of a result file, as a plan of a problem; empty devices are dropped.

    Raises
    ------
    FormatError
        If the file is not a result file with a throughput plan.
    InputError
        If the plan does not name devices of the problem.
    """
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


def _stage_document(problem: ThroughputProblem, entry: Stage, stage: StageEvaluation) -> dict[str, Any]:
    accelerator = next(kind.accelerator for kind in problem.kinds if kind.name == entry.kind)
    return {
        "name": entry.device,
        "kind": "accelerator" if accelerator else "cpu",
        "device_kind": entry.kind,
        "operators": list(entry.operators),
        "load": stage.load,
        "compute_forward": stage.compute_forward,
        "compute_backward": stage.compute_backward,
        "communication_in": stage.communication_in,
        "communication_out": stage.communication_out,
        "in_flight": stage.in_flight,
        "replicas": stage.replicas,
        "replica_devices": list(entry.devices),
        "synchronisation": stage.synchronisation,
        "reload": stage.reload,
        "memory_bytes": {
            "operators": stage.memory.operators,
            "weights": stage.memory.weights,
            "gradients": stage.memory.gradients,
            "optimizer": stage.memory.optimizer,
            "activations": stage.memory.activations,
            "workspace": stage.memory.workspace,
            "total": stage.memory.total,
            "limit": stage.memory.limit,
        },
    }


def plan_document(problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> dict[str, Any]:
    """A plan for a result file: one entry per device in use, in pipeline order, and how it runs as a pipeline."""
    return {
        "contiguity": plan.contiguity,
        "pipeline": msgspec.structs.asdict(pipeline_of(problem, plan, evaluation)),
        "devices": [
            _stage_document(problem, entry, stage) for entry, stage in zip(plan.stages, evaluation.stages, strict=True)
        ],
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


def result_document(result: Result[ThroughputProblem, Plan, Evaluation], **extra: Any) -> dict[str, Any]:
    """A ``partita.result`` document.

    Parameters
    ----------
    result
        What a run answered.
    extra
        Further top-level keys, such as the cluster.
    """
    problem = result.problem
    plan = None
    if result.plan is not None and result.evaluation is not None:
        plan = plan_document(problem, result.plan, result.evaluation)
    digest = sha256(tagged(problem, ThroughputProblem.format, ThroughputProblem.version))
    return result_envelope(result, digest, plan, **extra)
