"""partita simulate: from result files to time lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from instances.strategies import random_problem
from partita.documents.document import write_json
from partita.documents.stated import write_problem
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.simulator.schedules import DEFAULT_SCHEDULES
from partita.simulator.schedules.csv import write_schedule
from partita.simulator.schedules.protocol import Action
from running.command_line import Run
from running.traces import read_trace

Partita = Callable[..., Run]


@pytest.fixture
def training(tmp_path: Path) -> Path:
    """A file with a hybrid problem of four equal layers on four devices, with replicas that cost too much."""
    only = Configuration(id="none", time=3.0, weight_bytes=9.0, memory_per_microbatch_bytes=10.0, memory_bytes=5.0)
    layers = tuple(
        Layer(
            id=i,
            name=f"h.{i}",
            configurations={1: (only,)},
        )
        for i in range(4)
    )
    edges = tuple(Edge(source=i, target=i + 1, bytes=0.0) for i in range(3))
    problem = HybridProblem(
        name="four",
        devices=4,
        microbatches=8,
        bandwidth_bytes_per_unit=1.0,
        layers=layers,
        edges=edges,
    )
    path = tmp_path / "four.json"
    write_problem(path, problem)
    return path


@pytest.fixture
def result(partita: Partita, training: Path, tmp_path: Path) -> Path:
    """The result file of its best plan."""
    path = tmp_path / "result.json"
    assert partita("solve", training, "--output", path).code == 0
    return path


def test_a_result_file_is_enough(partita: Partita, result: Path) -> None:
    found = partita("simulate", result, "--json").document
    # (8 + 4 − 1) · 3
    assert (found["step_time"], found["unit"], found["schedule"]) == (33.0, "s", "1f1b")
    assert found["bubble_fraction"] == pytest.approx(1 - 24 / 33)
    assert found["objective"] == found["steady_period"] == 3.0
    assert found["formulas"] == {"the step": 33.0, "a microbatch in the steady state": 3.0}
    assert [device["name"] for device in found["devices"]] == [f"device:{i}" for i in range(4)]
    first = found["devices"][0]
    assert (first["busy"], first["communication_exposed"], first["idle"]) == (24.0, 0.0, 9.0)
    # Four microbatches in flight and the state.
    assert first["peak_memory_bytes"] == 45.0
    assert first["peak"]["microbatches"] == [0, 1, 2, 3]
    assert first["peak"]["parts"] == {"state": 5.0, "activations": 40.0}
    assert first["peak"]["tensors"][0] == {"name": "h.0: activations", "bytes": 40.0, "microbatches": 4}
    assert found["critical_path"][0] == "forward 0, stage 0"
    assert found["critical_path"][-1] == "backward 7, stage 0"
    assert {entry["change"] for entry in found["sensitivities"]} >= {"stage 0 (device:0) 10 % faster"}


def test_for_people(partita: Partita, result: Path) -> None:
    run = partita("simulate", result)
    assert run.code == 0
    for text in ("device:0 |", "B backward", "Devices: shares of the step", "The critical path", "one more microbatch"):
        assert text in run.out
    assert "8 microbatches take 33 s, schedule 1f1b; devices wait for 27.3% of that" in run.out


def test_options_change_the_run(partita: Partita, result: Path) -> None:
    steps = {
        name: partita("simulate", result, "--schedule", name, "--json").document["step_time"]
        for name in ("1f1b", "gpipe", "interleaved", "zero-bubble", "pipedream")
    }
    # (8 · 2 + 4 − 1) · 3/2 with two chunks; without a flush a batch takes 8 · 3.
    assert steps["interleaved"] == 28.5
    assert steps["pipedream"] == 24.0
    assert steps["zero-bubble"] < steps["gpipe"] == steps["1f1b"] == 33.0
    more = partita("simulate", result, "--microbatches", 16, "--json").document
    assert more["step_time"] == (16 + 3) * 3.0
    chunks = partita("simulate", result, "--schedule", "interleaved", "--chunks", 4, "--json").document
    assert chunks["step_time"] == (8 * 4 + 3) * 0.75
    for contention in ("shared", "serial"):
        assert partita("simulate", result, "--contention", contention, "--json").document["step_time"] == 33.0


def test_traces_and_pictures(partita: Partita, result: Path, tmp_path: Path) -> None:
    trace, picture = tmp_path / "trace.json", tmp_path / "gantt.svg"
    assert partita("simulate", result, "--trace", trace, "--gantt", picture).code == 0
    found = read_trace(trace)
    assert len(found.slices) == 2 * 4 * 8
    assert max(piece.start + piece.duration for piece in found.slices) == 33e6
    assert "device:3" in picture.read_text()
    again = tmp_path / "again.json"
    assert partita("simulate", result, "--trace", again, "--json").code == 0
    assert again.read_bytes() == trace.read_bytes()


def test_a_users_schedule(partita: Partita, result: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    orders = [[Action(s, "F", m) for m in range(8)] + [Action(s, "B", m) for m in range(8)] for s in range(4)]
    write_schedule(path, orders)
    found = partita("simulate", result, "--schedule", path, "--json").document
    assert found["step_time"] == 33.0
    # The file is for eight microbatches: no longer run is there to see a steady state in.
    assert found["steady_period"] is None
    for device, peak in zip(found["devices"], [8, 8, 8, 8], strict=True):
        assert device["peak_memory_bytes"] == 5 + 10 * peak


def test_an_impossible_schedule_names_the_first_action_that_cannot_run(
    partita: Partita, result: Path, tmp_path: Path
) -> None:
    path = tmp_path / "mine.csv"
    whole = [[Action(s, "F", m) for m in range(8)] + [Action(s, "B", m) for m in range(8)] for s in range(4)]
    # The second stage wants to go back before it has gone forward.
    turned = [whole[0], [*whole[1][8:], *whole[1][:8]], *whole[2:]]
    for orders, named in (
        (turned, "1B0"),
        ([row[:-1] if n == 2 else row for n, row in enumerate(whole)], "2F7 has no backward"),
    ):
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in orders))
        run = partita("simulate", result, "--schedule", path)
        assert run.code == 2
        assert named in run.err
        assert "Traceback" not in run.err
        assert run.out == ""


def test_bad_input_is_one_message(partita: Partita, training: Path, result: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.json"
    document = json.loads(result.read_text())
    del document["problem"]["stated"]
    write_json(bare, document)
    cases = [
        (("simulate", bare), "--problem"),
        (("simulate", result, "--schedule", "nosuch"), "nosuch"),
        (("simulate", result, "--schedule", "forward"), "inference"),
        (("simulate", result, "--gantt", tmp_path / "x.jpg"), ".png"),
        (("simulate", result, "--trace", tmp_path / "no" / "x.json"), "does not exist"),
        (("simulate", result, "--microbatches", "0"), "microbatches"),
        (("simulate", result, "--chunks", "3"), "chunks"),
        (("simulate", tmp_path / "none.json"), "no such file"),
        (("simulate", training), "partita.result"),
    ]
    for arguments, word in cases:
        run = partita(*arguments)
        assert (run.code, run.out) == (2, ""), arguments
        assert word in run.err
        assert len(run.err.strip().splitlines()) == 1
    assert partita("simulate", bare, "--problem", training, "--json").document["step_time"] == 33.0


def test_another_problem_is_noted(partita: Partita, result: Path, tmp_path: Path) -> None:
    document = json.loads(result.read_text())["problem"]["stated"]
    document["microbatches"] = 4
    other = tmp_path / "other.json"
    write_json(other, document)
    run = partita("simulate", result, "--problem", other, "--json")
    assert run.document["step_time"] == (4 + 3) * 3.0
    assert "another problem" in run.err


def test_splits_of_throughput_problems(partita: Partita, tmp_path: Path) -> None:
    problem, path = tmp_path / "problem.json", tmp_path / "result.json"
    write_problem(problem, random_problem(1, 20, devices=3))
    solved = partita("solve", problem, "--output", path, "--json").document
    found = partita("simulate", path, "--microbatches", 64, "--json").document
    assert found["unit"] == "ms"
    assert found["steady_period"] == pytest.approx(solved["objective"])
    assert solved["step"]["time"] > 0
    assert set(solved["plan"]["pipeline"]) >= {"latency", "latency_alone", "formula"}
    # As many microbatches as in the report make the same step.
    again = partita("simulate", path, "--json").document
    assert again["step_time"] == solved["step"]["time"]


def test_schedules_are_listed(partita: Partita) -> None:
    found = partita("schedules", "--json").document["schedules"]
    assert [entry["name"] for entry in found] == [schedule.name for schedule in DEFAULT_SCHEDULES]
    assert "1f1b" in partita("schedules").out
