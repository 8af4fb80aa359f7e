"""Workloads, splits and result files of latency problems, from Python and on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from partita.ground.errors import InputError
from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.problem import LatencyProblem
from running.command_line import Run, partita

__all__ = ["partita"]


def workload(**changes: Any) -> dict[str, Any]:
    """Forward 1 → 2 and 1 → 4, backward 2 → 3."""

    def node(identity: int, **more: Any) -> dict[str, Any]:
        fields = {"id": identity, "supportedOnFpga": 1, "cpuLatency": 10.0, "fpgaLatency": 1.0, "isBackwardNode": 0}
        return fields | more

    fields = {
        "maxSizePerFPGA": 50.0,
        "maxFPGAs": 3,
        "maxCPUs": 0,
        "nodes": [
            node(1, name="in", size=7.0, colorClass=5),
            node(2, supportedOnFpga=False, fpgaLatency=4.0),
            node(4),
            node(3, isBackwardNode=True, colorClass=5),
        ],
        "edges": [{"sourceId": s, "destId": t, "cost": c} for s, t, c in ((1, 4, 2.0), (1, 2, 2.0), (2, 3, 6.0))],
    }
    return fields | changes


def write(tmp_path: Path, document: Any, name: str = "work.json") -> Path:
    path = tmp_path / name
    path.write_text(json.dumps(document))
    return path


def read(tmp_path: Path, **settings: Any) -> LatencyProblem:
    found = pt.read_problem(write(tmp_path, workload()), problem="latency", **settings)
    assert isinstance(found, LatencyProblem)
    return found


def test_every_field_of_a_workload(tmp_path: Path) -> None:
    problem = read(tmp_path)
    assert (problem.name, problem.unit, problem.accelerators, problem.memory_bytes) == ("work", "ms", 3, 50.0)
    ops = {op.id: op for op in problem.operators}
    assert (ops[1].name, ops[1].memory_bytes, ops[1].colocation, ops[1].transfer_time) == ("in", 7.0, 5, 2.0)
    assert (ops[2].accelerator_time, ops[2].cpu_time, ops[2].transfer_time) == (None, 10.0, 6.0)
    assert (ops[1].accelerator_time, ops[3].accelerator_time, problem.notes) == (1.0, 1.0, ())
    assert ops[3].backward
    assert not ops[4].backward
    assert ops[4].transfer_time == 0.0
    assert set(problem.edges) == {(1, 2), (1, 4), (2, 3)}
    assert read(tmp_path, scale_communication=3.0).operators[0].transfer_time == 6.0
    assert pt.read_problem(tmp_path / "work.json").kind == "throughput"


def test_small_transfers_are_told(tmp_path: Path) -> None:
    edges = [{"sourceId": 1, "destId": 4, "cost": 0.0012}]
    problem = pt.read_problem(write(tmp_path, workload(edges=edges)), problem="latency")
    # Three operators take 1 ms each on accelerators, the other has no time there.
    assert "take 0.04% of the compute time" in problem.notes[0]


def test_splits_there_and_back(tmp_path: Path) -> None:
    problem = read(tmp_path)
    kind = pt.problems.find_kind("latency")
    plan = kind.files.read_plan(write(tmp_path, {"fpgas": [{"nodes": [1, 4]}], "cpus": [{"nodes": [2]}]}), problem)
    # The backward operator goes with its class.
    assert plan == LatencyPlan(accelerators=(((1, 4), (3,)),))
    path = tmp_path / "again.json"
    kind.files.writers[0].write(str(path), problem, plan, kind.evaluate(problem, plan))
    document = json.loads(path.read_text())
    assert [row["nodes"] for row in document["fpgas"]] == [[1, 4, 3], [], []]
    assert [row["nodes"] for row in document["cpus"]] == [[2]]
    assert document["maxLoad"] == kind.evaluate(problem, plan).objective
    assert kind.files.read_plan(path, problem) == plan
    # As many accelerators as there are, and no CPU.
    able = pt.read_problem(
        write(tmp_path, workload(nodes=[{**n, "supportedOnFpga": 1} for n in workload()["nodes"]])), problem="latency"
    )
    full = kind.files.read_plan(write(tmp_path, {"fpgas": [{"nodes": [v]} for v in (1, 2, 4)]}, "split.json"), able)
    assert full == LatencyPlan(accelerators=(((1,), (3,)), ((2,),), ((4,),)))
    kind.files.writers[0].write(str(path), able, full, kind.evaluate(able, full))
    assert json.loads(path.read_text())["cpus"] == [{"nodes": [], "load": 0.0}]


def test_plans_there_and_back(tmp_path: Path) -> None:
    problem = read(tmp_path)
    kind = pt.problems.find_kind("latency")
    plan = LatencyPlan(accelerators=(((1, 4), (3,)),))
    found = kind.evaluate(problem, plan)
    document = json.loads(json.dumps(kind.files.plan_document(problem, plan, found)))
    # 2 is on the CPU between two pieces: 1 is moved out and 2 in.
    assert document == {
        "devices": [
            {
                "name": "accelerator:0",
                "kind": "accelerator",
                "operators": [1, 4, 3],
                "pieces": [[1, 4], [3]],
                "times": [
                    {"start": 0.0, "transfer_in": 0.0, "compute": 2.0, "transfer_out": 2.0, "end": 4.0},
                    {"start": 14.0, "transfer_in": 6.0, "compute": 1.0, "transfer_out": 0.0, "end": 21.0},
                ],
                "memory_bytes": {"total": 7.0, "limit": 50.0},
            },
            {"name": "cpu:0", "kind": "cpu", "operators": [2]},
        ],
        "critical_path": [
            {"start": 0.0, "end": 4.0, "device": 0, "piece": 0, "operator": None},
            {"start": 4.0, "end": 14.0, "device": None, "piece": None, "operator": 2},
            {"start": 14.0, "end": 21.0, "device": 0, "piece": 1, "operator": None},
        ],
    }
    assert (
        kind.files.read_plan(
            write(tmp_path, {"format": "partita.result", "version": 1, "plan": document}, "r.json"), problem
        )
        == plan
    )


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([("accelerator", [1, 2, 3, 4], [[1, 4]])], "pieces of device 'one' are not its operators"),
        ([("tpu", [1, 2, 3, 4], [])], "device 'one' is a 'tpu'; it must be accelerator or cpu"),
        ([("cpu", [1, 2, 3, 4], [[1]])], "device 'one' is a CPU and has pieces"),
        ([("cpu", [1, 2, 3, 4], []), ("cpu", [4], [])], "operator 4 is placed twice"),
        ([("cpu", [1, 2], [])], "operator 3 is on no device"),
        ([("cpu", [1, 2, 3, 4, 8], [])], "operator 8 does not exist in problem 'work'"),
        ([("accelerator", [1, 2, 3, 4], [[1, 2, 3, 4], []])], "piece 1 of accelerator 0 has no operators"),
    ],
)
def test_plans_that_are_none(tmp_path: Path, devices: Any, message: str) -> None:
    rows = [{"name": "one", "kind": kind, "operators": own, "pieces": pieces} for kind, own, pieces in devices]
    problem = read(tmp_path)
    with pytest.raises(InputError, match=message):
        pt.problems.find_kind("latency").files.read_plan(
            write(tmp_path, {"format": "partita.result", "version": 1, "plan": {"devices": rows}}, "r.json"), problem
        )


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"fpgas": [{"nodes": [1]}] * 4}, "uses 4 accelerators"),
        ({"fpgas": [{"nodes": [1, 1]}]}, "node 1 is placed twice"),
        ({"fpgas": [{"nodes": [8]}]}, "node 8 does not exist"),
        ({"fpgas": [{"nodes": [1]}]}, r"node 2 is on no device \(2 are missing\)"),
    ],
)
def test_splits_that_are_none(tmp_path: Path, split: Any, message: str) -> None:
    problem = read(tmp_path)
    with pytest.raises(InputError, match=message):
        pt.problems.find_kind("latency").files.read_plan(write(tmp_path, split, "split.json"), problem)


def test_on_the_command_line(partita: Callable[..., Run], tmp_path: Path) -> None:
    """Solve, write both files, and evaluate them."""
    path, result, split = write(tmp_path, workload()), tmp_path / "r.json", tmp_path / "s.json"
    common = ("--problem", "latency", "--pieces", "2")
    run = partita("solve", path, *common, "--json", "--output", result, "--split-output", split)
    assert run.code == 0, run.err
    found = run.document
    assert found["status"] == "optimal"
    devices = json.loads(result.read_text())["plan"]["devices"]
    assert sorted(v for device in devices for v in device["operators"]) == [1, 2, 3, 4]
    for device in devices:
        assert device["kind"] in ("accelerator", "cpu")
        if device["kind"] == "accelerator":
            assert [v for piece in device["pieces"] for v in piece] == device["operators"]
    for plan in (result, split):
        again = partita("evaluate", path, plan, *common, "--json")
        assert again.code == 0, again.err
        assert again.document["objective"] == pytest.approx(found["objective"])
    shown = partita("solve", path, *common)
    assert "Critical path" in shown.out
    assert "the critical path is" in shown.out
