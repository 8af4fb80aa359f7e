"""partita's own files of throughput problems and their plans, every field of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from partita.documents.document import sha256, tagged
from partita.ground.errors import FormatError
from partita.nouns.split import Split, StagePart
from partita.problems import kind_of
from partita.problems.throughput.problem import (
    DeviceKind,
    LinkedGroup,
    MicrobatchSchedule,
    MovedTensor,
    SavedTensor,
    StoredParameter,
    ThroughputProblem,
    TimedOperator,
)
from running.command_line import Run

PROBLEM = ThroughputProblem(
    name="small",
    unit="ms",
    kinds=(
        DeviceKind(name="gpu", count=3, memory_bytes=60.0, sync_time_per_byte=0.5, reload_time_per_byte=0.25),
        DeviceKind(name="host", count=1, accelerator=False, transfer_time_per_unit=0.0),
    ),
    operators=(
        TimedOperator(id=5, times=(4.0, 8.0), memory_bytes=10.0, workspace_bytes=3.0),
        TimedOperator(id=7, times=(2.0, 3.0)),
    ),
    tensors=(MovedTensor(producer=5, consumers=(7,), size=6.0),),
    parameters=(StoredParameter(name="w", users=(5,), weight_bytes=20.0, gradient_bytes=8.0, optimizer_bytes=16.0),),
    saved=(SavedTensor(name="kept", users=(5,), bytes=5.0),),
    schedule=MicrobatchSchedule(name="1f1b", microbatches=4),
    max_replicas=2,
    groups=(
        LinkedGroup(name="left", counts=(2, 0), transfer_time_per_unit=2.0),
        LinkedGroup(name="right", counts=(1, 1), transfer_time_per_unit=2.0),
    ),
    streaming=True,
)

FIRST = {"name": "gpu:0", "operators": [5], "replica_devices": ["gpu:0", "gpu:1"]}
SECOND = {"name": "host:0", "operators": [7]}


def test_problems_there_and_back(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    pt.write_problem(path, PROBLEM)
    assert pt.read_problem(path) == PROBLEM
    document = json.loads(path.read_text())
    assert (document["format"], document["version"]) == ("partita.problem", 1)
    path.write_text(json.dumps(document | {"format": "partita.graph"}))
    with pytest.raises(FormatError, match=r"format is 'partita\.graph', expected 'partita\.problem'"):
        pt.read_problem(path, format="partita")


@pytest.fixture
def evaluated(partita: Callable[..., Run], tmp_path: Path) -> Callable[..., Run]:
    """``partita evaluate --json`` on the problem and a plan's document."""
    problem = tmp_path / "p.json"
    pt.write_problem(problem, PROBLEM)

    def call(**plan: Any) -> Run:
        path = tmp_path / "r.json"
        path.write_text(json.dumps({"format": "partita.result", "version": 1, "plan": plan}))
        return partita("evaluate", problem, path, "--json")

    return call


def test_every_field_of_a_plan(evaluated: Callable[..., Run]) -> None:
    """Work 4, transfer 6 and reload 1.75 shared by two, and 1/2 · 8 · 0.5 to synchronise: 7.875; the links carry 12."""
    document = evaluated(devices=[FIRST, SECOND]).document
    assert (document["objective"], document["unit"], document["feasible"]) == (12.0, "ms", True)
    plan = document["plan"]
    assert plan["devices"] == [
        {
            "name": "gpu:0",
            "kind": "accelerator",
            "device_kind": "gpu",
            "operators": [5],
            "load": 7.875,
            "compute_forward": 4.0,
            "compute_backward": 0.0,
            "communication_in": 0.0,
            "communication_out": 6.0,
            # Three devices to the end, of which two take turns: two microbatches each.
            "in_flight": 2,
            "replicas": 2,
            "replica_devices": ["gpu:0", "gpu:1"],
            "synchronisation": 2.0,
            # 67 of 60 bytes: 7 bytes at 0.25.
            "reload": 1.75,
            "memory_bytes": {
                "operators": 10.0,
                "weights": 20.0,
                "cache": 0.0,
                "gradients": 8.0,
                "optimizer": 16.0,
                "activations": 10.0,
                "workspace": 3.0,
                "total": 67.0,
                "limit": 60.0,
            },
        },
        {
            "name": "host:0",
            "kind": "cpu",
            "device_kind": "host",
            "operators": [7],
            "load": 3.0,
            "compute_forward": 3.0,
            "compute_backward": 0.0,
            "communication_in": 0.0,
            "communication_out": 0.0,
            "in_flight": 1,
            "replicas": 1,
            "replica_devices": ["host:0"],
            "synchronisation": 0.0,
            "reload": 0.0,
            "memory_bytes": {
                "operators": 0.0,
                "weights": 0.0,
                "cache": 0.0,
                "gradients": 0.0,
                "optimizer": 0.0,
                "activations": 0.0,
                "workspace": 0.0,
                "total": 0.0,
                "limit": None,
            },
        },
    ]
    assert plan["groups"] == [
        {"name": "left", "load": 12.0, "communication_in": 0.0, "communication_out": 12.0},
        {"name": "right", "load": 12.0, "communication_in": 12.0, "communication_out": 0.0},
    ]
    assert plan["contiguity"] == "acyclic"
    # A sample stays two rounds of 12 on the first stage and one on the second; alone it takes 4 + 6 and 3. As it runs,
    # it also waits for what is fetched again (1.75), and for the links of both groups (12 each).
    assert plan["pipeline"] == {
        "stages": 2,
        "virtual_stages": 2,
        "depth": 2,
        "period": 12.0,
        "latency": 38.75,
        "latency_alone": 38.75,
        "formula": {"latency": 36.0, "latency_alone": 13.0},
    }


def test_what_a_plan_may_leave_out(evaluated: Callable[..., Run]) -> None:
    """Empty devices are dropped, even such that the problem does not have; further keys are no matter."""
    empty = {"name": "tpu:9", "operators": []}
    document = evaluated(devices=[SECOND, empty, FIRST | {"load": 3.0}], contiguity="free", pipeline=None).document
    assert [device["name"] for device in document["plan"]["devices"]] == ["host:0", "gpu:0"]
    assert document["plan"]["contiguity"] == "free"
    assert document["objective"] == 12.0


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"devices": [{"name": "tpu:9", "operators": [5]}]}, "r.json: there is no device 'tpu:9' in problem 'small'"),
        ({"devices": [{"operators": [5]}]}, "plan: missing key `name`, at `$.devices[0]`"),
        ({"devices": [{"name": "gpu:0"}]}, "plan: missing key `operators`, at `$.devices[0]`"),
        ({"devices": [FIRST], "contiguity": "loose"}, "plan: invalid enum value 'loose'"),
        ({"stages": []}, "plan: missing key `devices`"),
        ({"devices": [FIRST]}, "operator 7 is in no stage"),
    ],
)
def test_what_is_no_plan(evaluated: Callable[..., Run], plan: dict[str, Any], message: str) -> None:
    run = evaluated(**plan)
    assert run.code == 2
    assert message.lower() in run.err.lower()


def test_results_name_their_problem_and_keep_the_plan(partita: Callable[..., Run], tmp_path: Path) -> None:
    plain = PROBLEM.replace(groups=(), streaming=False, max_replicas=1, memory_bytes=80.0, notes=("assumed",))
    problem, result = tmp_path / "p.json", tmp_path / "r.json"
    pt.write_problem(problem, plain)
    assert partita("solve", problem, "--output", result).code == 0
    document = json.loads(result.read_text())
    # Together on a GPU: 4 + 2, with 10 + 20 + 8 + 16 + 5 + 3 = 62 bytes. Apart: 10 against 8 or 3.
    assert (document["objective"], document["status"], document["notes"]) == (6.0, "optimal", ["assumed"])
    assert document["problem"].pop("stated")["format"] == "partita.problem"
    assert document["problem"] == {"name": "small", "sha256": sha256(tagged(plain, "partita.problem", 1))}
    assert [device["operators"] for device in document["plan"]["devices"]] == [[5, 7]]
    assert document["plan"]["devices"][0]["memory_bytes"]["total"] == 62.0
    again = partita("evaluate", problem, result, "--json").document
    assert again["plan"] == document["plan"]
    assert partita("solve", problem, "--memory", 61, "--cpus", 0, "--output", result).code == 1
    document = json.loads(result.read_text())
    assert (document["plan"], document["objective"], document["status"]) == (None, None, "infeasible")
    run = partita("evaluate", problem, result, "--json")
    assert run.code == 2
    assert "holds no plan" in run.err


def test_splits_are_written_and_read(partita: Callable[..., Run], tmp_path: Path) -> None:
    """Together on a GPU: 4 + 2."""
    problem, result, published = tmp_path / "p.json", tmp_path / "r.json", tmp_path / "s.json"
    pt.write_problem(problem, PROBLEM.replace(groups=(), max_replicas=1, memory_bytes=80.0))
    assert partita("solve", problem, "--output", result, "--split-output", published).code == 0
    document = json.loads(published.read_text())
    assert document["maxLoad"] == 6.0
    assert [device["nodes"] for device in document["fpgas"]] == [[5, 7], [], []]
    for plan in (result, published):
        assert partita("evaluate", problem, plan, "--json").document["objective"] == 6.0


def listed(**changes: Any) -> dict[str, Any]:
    fields = {
        "name": "gpu:0",
        "kind": "accelerator",
        "device_kind": "gpu",
        "replica_devices": ["gpu:0"],
        "operators": [5],
    }
    return fields | changes


SECOND_LISTED = listed(name="host:0", kind="cpu", device_kind="host", replica_devices=["host:0"], operators=[7, 9])
SPLIT = Split(
    model="small",
    stages=(
        StagePart(rank=0, devices=("gpu:0",), operators=(5, 6)),
        StagePart(rank=1, devices=("host:0",), accelerator=False, operators=(7, 9)),
    ),
)


@pytest.mark.parametrize(
    ("devices", "stages", "expected"),
    [
        ([listed(), SECOND_LISTED], None, []),
        ([listed(), listed(operators=[]), SECOND_LISTED], None, []),
        ([listed(), SECOND_LISTED], [listed(), SECOND_LISTED], []),
        ([listed(), SECOND_LISTED], [listed()], ["plan.stages are 1, and plan.devices 2"]),
        (
            [listed(), SECOND_LISTED],
            [listed(operators=[6]), SECOND_LISTED],
            ["plan.stages[0] and plan.devices[0] differ in operators"],
        ),
        ([listed()], None, ["split.stages are 2, and plan.devices with operators 1"]),
        (
            [listed(name="gpu:1", replica_devices=["gpu:1"]), SECOND_LISTED],
            None,
            ["plan.devices[0] is on gpu:1, and split.stages[0] on gpu:0"],
        ),
        (
            [listed(operators=[3, 4, 5]), SECOND_LISTED],
            None,
            ["plan.devices[0] has operator 3, and split.stages[0] has not"],
        ),
        (
            [listed(kind="cpu"), SECOND_LISTED],
            None,
            ["plan.devices[0].kind is cpu, and split.stages[0] says otherwise"],
        ),
    ],
)
def test_contradictions(devices: list[Any], stages: list[Any] | None, expected: list[str]) -> None:
    plan = {"contiguity": "acyclic", "devices": devices} | ({} if stages is None else {"stages": stages})
    files = kind_of(PROBLEM).files
    assert list(files.contradictions(json.dumps(plan).encode(), SPLIT, "r.json")) == expected
    assert list(files.contradictions(json.dumps(plan).encode(), None, "r.json")) == [
        text for text in expected if "split" not in text
    ]


@pytest.mark.parametrize(("keys", "found"), [("devices contiguity", True), ("devices", False), ("contiguity", False)])
def test_which_plans_are_of_these_files(keys: str, found: bool) -> None:
    assert kind_of(PROBLEM).files.wrote(dict.fromkeys(keys.split())) is found
