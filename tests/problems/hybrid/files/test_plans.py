"""partita's own files of the hybrid problem: plans, every field of them, with machines and without."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import partita as pt
from partita.documents.document import sha256, tagged
from partita.ground.errors import FormatError
from partita.nouns.split import Card, RuntimeLayer, Split, StagePart
from partita.problems import kind_of
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import Hierarchy, HybridProblem
from running.command_line import Run

FIELDS: dict[str, Any] = {
    "name": "small",
    "unit": "ms",
    "devices": 6,
    "bandwidth_bytes_per_unit": 2.0,
    "microbatches": 5,
    "layers": (
        Layer(id=3, configurations={1: (Configuration(id="a", time=2.0, memory_bytes=1.0),)}),
        Layer(
            id=8,
            configurations={
                1: (Configuration(id="b", time=4.0, weight_bytes=3.0, memory_per_microbatch_bytes=5.0),),
                2: (Configuration(id="c", time=2.0, weight_bytes=1.5),),
            },
        ),
    ),
    "edges": (Edge(source=3, target=8, bytes=6.0),),
}
PLAIN = HybridProblem(**FIELDS)
PAIRS = HybridProblem(**FIELDS, hierarchy=Hierarchy(devices_per_machine=2, machine_bandwidth_bytes_per_unit=0.5))

FIRST = {"operators": [3], "data_parallel": 1, "tensor_parallel": 1, "configurations": {"3": "a"}}
SECOND = {"operators": [8], "data_parallel": 2, "tensor_parallel": 1, "configurations": {"8": "b"}}


@pytest.fixture
def evaluated(partita: Callable[..., Run], tmp_path: Path) -> Callable[..., Run]:
    """``partita evaluate --json`` on a problem and a plan's document."""

    def call(problem: HybridProblem, **plan: Any) -> Run:
        pt.write_problem(tmp_path / "p.json", problem)
        path = tmp_path / "r.json"
        path.write_text(json.dumps({"format": "partita.result", "version": 1, "plan": plan}))
        return partita("evaluate", tmp_path / "p.json", path, "--json")

    return call


@pytest.mark.parametrize("problem", [PLAIN, PAIRS])
def test_problems_there_and_back(tmp_path: Path, problem: HybridProblem) -> None:
    path = tmp_path / "p.json"
    pt.write_problem(path, problem)
    assert pt.read_problem(path) == problem
    document = json.loads(path.read_text())
    assert (document["format"], document["version"]) == ("partita.hybrid", 1)
    path.write_text(json.dumps(document | {"version": 2}))
    with pytest.raises(FormatError, match=r"version 2 of partita\.hybrid"):
        pt.read_problem(path)


def test_every_field_of_a_plan(evaluated: Callable[..., Run]) -> None:
    """2 and 2·6/2 for the first; 4/2, 2·6/(2·2) and 4·1·3/(2·2·2) for the second, which has two replicas."""
    document = evaluated(PLAIN, stages=[FIRST, SECOND]).document
    assert (document["objective"], document["unit"], document["feasible"]) == (8.0, "ms", True)
    assert document["plan"] == {
        "devices": 3,
        "microbatches": 3,
        "stages": [
            FIRST
            | {
                "time_per_microbatch": 8.0,
                "time_per_sample": 8.0,
                "memory_bytes": 1.0,
                "compute": 2.0,
                "transfer": 6.0,
                "weight_sync": 0.0,
                "in_flight": 3,
            },
            SECOND
            | {
                "time_per_microbatch": 6.5,
                "time_per_sample": 6.5,
                "memory_bytes": 5.0,
                "compute": 2.0,
                "transfer": 3.0,
                "weight_sync": 1.5,
                "in_flight": 1,
            },
        ],
    }


def test_every_field_of_a_plan_on_machines(evaluated: Callable[..., Run]) -> None:
    """The second stage on two machines of two devices each.

    Inside, 4/4, 2·6/(4·2) and, for two replicas of each of two machines, 4·1·3/(2·4·2); between machines 2·6/(d·0.5)
    and, for the second, 4·1·3/(2·2·0.5).
    """
    first = FIRST | {"machines": 1, "machine_group": 0}
    second = SECOND | {"data_parallel": 4, "machines": 2, "machine_group": 1}
    plan = evaluated(PAIRS, stages=[first, second]).document["plan"]
    assert (plan["devices"], plan["microbatches"], plan["machines"]) == (5, 5, 3)
    assert plan["machine_groups"] == [
        {"machines": 1, "time_per_microbatch": 24.0, "time_per_sample": 24.0, "transfer": 24.0, "weight_sync": 0.0},
        {"machines": 2, "time_per_microbatch": 18.0, "time_per_sample": 18.0, "transfer": 12.0, "weight_sync": 6.0},
    ]
    numbers = {
        "time_per_microbatch": 3.25,
        "time_per_sample": 3.25,
        "memory_bytes": 5.0,
        "compute": 1.0,
        "transfer": 1.5,
        "weight_sync": 0.75,
    }
    assert plan["stages"][1] == second | numbers | {"in_flight": 1}
    assert (plan["stages"][0]["machines"], plan["stages"][0]["machine_group"]) == (1, 0)


def test_degrees_are_read(evaluated: Callable[..., Run]) -> None:
    """On two devices together the second layer takes 2 and moves 6."""
    second = SECOND | {"data_parallel": 1, "tensor_parallel": 2, "configurations": {"8": "c"}}
    plan = evaluated(PLAIN, stages=[FIRST, second]).document["plan"]
    assert plan["devices"] == 3
    assert plan["stages"][1]["time_per_sample"] == 8.0


@pytest.mark.parametrize("key", list(FIRST))
def test_keys_that_must_be_there(evaluated: Callable[..., Run], key: str) -> None:
    run = evaluated(PLAIN, stages=[{name: value for name, value in FIRST.items() if name != key}, SECOND])
    assert run.code == 2
    assert f"plan: missing key `{key}`, at `$.stages[0]`" in run.err


def test_results_name_their_problem_and_keep_the_plan(partita: Callable[..., Run], tmp_path: Path) -> None:
    noted = msgspec.structs.replace(PLAIN, notes=("assumed",))
    problem, result = tmp_path / "p.json", tmp_path / "r.json"
    pt.write_problem(problem, noted)
    assert partita("solve", problem, "--output", result).code == 0
    document = json.loads(result.read_text())
    digest = sha256(msgspec.to_builtins(tagged(noted, "partita.hybrid", 1), str_keys=True))
    assert document["problem"].pop("stated")["format"] == "partita.hybrid"
    assert document["problem"] == {"name": "small", "sha256": digest}
    assert (document["status"], document["notes"]) == ("optimal", ["assumed"])
    again = partita("evaluate", problem, result, "--json").document
    assert again["plan"] == document["plan"]
    assert again["objective"] == document["objective"]
    assert partita("solve", problem, "--memory", 0.5, "--output", result).code == 1
    document = json.loads(result.read_text())
    assert (document["plan"], document["objective"], document["status"]) == (None, None, "infeasible")


LAYERS = tuple(
    RuntimeLayer(name=str(v), part="block", recompute=way) for v, way in enumerate(("none", "operators", "attention"))
)
PARTS = (
    StagePart(rank=0, devices=("a",), planned=(0,)),
    StagePart(rank=1, devices=("b", "c"), replicas=2, planned=(1, 2)),
)
SPLIT = Split(
    model="small", stages=PARTS, layers=LAYERS, cards=tuple(Card(kind="gpu") for _ in range(3)), schedule="1f1b", zero=1
)
STAGES: tuple[dict[str, Any], ...] = (
    {"operators": [0], "data_parallel": 1, "tensor_parallel": 1, "configurations": {"0": "offload"}},
    {"operators": [1, 2], "data_parallel": 2, "tensor_parallel": 1, "configurations": dict.fromkeys("12", "selective")},
)
SUMS = {"devices": 3, "microbatches": 3, "schedule": "1f1b", "zero": 1}


def contradictions(changes: dict[str, Any], split: Split | None, *stages: dict[str, Any]) -> list[str]:
    plan = {**SUMS, "stages": [one | other for one, other in zip(STAGES, stages or ({}, {}), strict=True)], **changes}
    return list(kind_of(PLAIN).files.contradictions(json.dumps(plan).encode(), split, "r.json"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"devices": 4}, ["plan.devices is 4, and plan.stages have 3"]),
        ({"schedule": "gpipe"}, ["plan.schedule is gpipe, and split.schedule is 1f1b"]),
        ({"zero": 2}, ["plan.zero is 2, and split.zero is 1"]),
    ],
)
def test_what_a_plan_says_twice(changes: dict[str, Any], expected: list[str]) -> None:
    assert contradictions(changes, SPLIT) == expected


@pytest.mark.parametrize(
    ("keys", "found"),
    [([{"data_parallel": 1}], True), ([{"data_parallel": 1}, {}], False), ([1], False), (None, False)],
)
def test_which_plans_are_of_these_files(keys: Any, found: bool) -> None:
    assert kind_of(PLAIN).files.wrote({"stages": keys}) is found


def test_what_plan_and_split_say_of_a_stage() -> None:
    assert contradictions({}, SPLIT, {"configurations": {"0": "full"}}, {}) == [
        "plan.stages[0].configurations has full for layer 0, and split.layers[0].recompute is none"
    ]
    short = msgspec.structs.replace(SPLIT, stages=PARTS[:1])
    assert contradictions({}, short) == ["split.stages are 1, and plan.stages have 2 parts"]
    other = msgspec.structs.replace(
        SPLIT, stages=(msgspec.structs.replace(PARTS[0], context=2, planned=(2,)), PARTS[1])
    )
    assert contradictions({}, other) == [
        "plan.stages[0].operators are not the layers of split.stages[0].planned",
        "plan.stages[0].context_parallel is 1, and split.stages[0] has 2",
    ]
