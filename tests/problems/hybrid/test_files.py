"""Hybrid problems and plans in files and on the command line."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from partita.cli import main
from partita.ground.errors import FormatError, InputError, UnsupportedError
from partita.problems.hybrid.problem import Hierarchy, HybridProblem


def document(**changes: Any) -> dict[str, Any]:
    """Two layers in the piper format; best on two devices: one stage with both replicas, (3 + 5)/2 + 4·10/(2·2·100)."""

    def configuration(time: float, before: dict[str, float], after: dict[str, float]) -> dict[str, Any]:
        return {
            "id": "vanilla",
            "timePerSample": time,
            "parameterSize": 5.0,
            "memoryUsageA": 1.0,
            "memoryUsageB": 2.0,
            "syncTimeFw": before,
            "syncTimeBw": after,
        }

    fields = {
        "maxDevices": 2,
        "maxMemoryPerDevice": 100.0,
        "bandwidth": 100.0,
        "mbsInBatch": 2,
        "comment": "unknown keys are ignored",
        "nodes": [
            {"id": 7, "name": "in", "TMPCs": {"1": [configuration(3.0, {}, {"9": 0.0})]}},
            {"id": 9, "name": "out", "TMPCs": {"1": [configuration(5.0, {"7": 0.0}, {})]}, "kind": 3},
        ],
        "edges": [{"sourceId": 7, "destId": 9, "communicationCost": 400.0}],
    }
    return fields | changes


@pytest.fixture
def piper(tmp_path: Path) -> Path:
    path = tmp_path / "two.json"
    path.write_text(json.dumps(document()))
    return path


def run(*arguments: object) -> tuple[int, dict[str, Any] | None, str]:
    """Exit status, the JSON object on stdout, and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return int(stop.value.code or 0), json.loads(out.getvalue()) if out.getvalue() else None, err.getvalue()


def test_the_piper_format_is_read(piper: Path) -> None:
    problem = pt.read_problem(piper)
    assert isinstance(problem, HybridProblem)
    assert (problem.devices, problem.microbatches, problem.memory_bytes) == (2, 2, 100.0)
    assert problem.layers[1].configurations[1][0].sync_in_bytes == {7: 0.0}
    assert pt.read_problem(piper, format="piper", scale_communication=4.0) == problem.scale_communication(4.0)


def test_batch_size_has_two_names(tmp_path: Path) -> None:
    fields = document(maxBatchSize=5)
    del fields["mbsInBatch"]
    path = tmp_path / "p.json"
    path.write_text(json.dumps(fields))
    problem = pt.read_problem(path)
    assert isinstance(problem, HybridProblem)
    assert problem.microbatches == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mbsInBatch": None}, "mbsInBatch"),
        ({"maxDevices": 0}, "devices is 0"),
        ({"maxDevices": "many"}, "expected `int`"),
        ({"bandwidth": 0}, "bandwidth"),
        ({"nodes": []}, "no layers"),
        ({"edges": [{"sourceId": 7, "destId": 8, "communicationCost": 1}]}, "no layer with id 8"),
        ({"edges": []}, "no edge"),
    ],
)
def test_malformed_files_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document(**changes)))
    with pytest.raises(InputError, match=message):
        pt.read_problem(path)
    code, _, err = run("solve", path)
    assert code == 2
    assert message in err


def test_own_format_keeps_every_field(piper: Path, tmp_path: Path) -> None:
    problem = pt.read_problem(piper)
    path = tmp_path / "own.json"
    pt.write_problem(path, problem)
    assert json.loads(path.read_text())["format"] == "partita.hybrid"
    assert pt.read_problem(path) == problem
    fields = json.loads(path.read_text()) | {"colour": "red"}
    path.write_text(json.dumps(fields))
    with pytest.raises(FormatError, match="colour"):
        pt.read_problem(path)


def test_solve_and_evaluate_agree(piper: Path, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    code, found, _ = run("solve", piper, "--output", output, "--json")
    assert code == 0
    assert found is not None
    assert found["objective"] == pytest.approx(4.0 + 4 * 10 / (2 * 2 * 100))
    assert found["status"] == "optimal"
    assert found["unit"] == "s"
    (stage,) = found["plan"]["stages"]
    assert stage["operators"] == [7, 9]
    assert (stage["data_parallel"], stage["tensor_parallel"]) == (2, 1)
    assert stage["configurations"] == {"7": "vanilla", "9": "vanilla"}
    assert stage["time_per_sample"] == found["objective"]
    assert stage["memory_bytes"] == 6.0
    assert json.loads(output.read_text())["plan"] == found["plan"]
    code, again, _ = run("evaluate", piper, output, "--json")
    assert code == 0
    assert again is not None
    assert again["objective"] == found["objective"]
    assert again["feasible"]
    code, again, _ = run("evaluate", piper, output, "--devices", 1, "--json")
    assert again is not None
    assert again["status"] == "infeasible"
    assert "use 2 devices" in again["reason"]


def test_machines_are_kept(piper: Path, tmp_path: Path) -> None:
    problem = pt.read_problem(piper)
    assert isinstance(problem, HybridProblem)
    machine = Hierarchy(devices_per_machine=1, machine_bandwidth_bytes_per_unit=2.0)
    problem = problem.replace(devices=2, memory_bytes=float("inf"), hierarchy=machine)
    path, output = tmp_path / "own.json", tmp_path / "result.json"
    pt.write_problem(path, problem)
    assert pt.read_problem(path) == problem
    code, found, _ = run("solve", path, "--output", output, "--json")
    assert code == 0
    assert found is not None
    plan = found["plan"]
    assert plan["machines"] == sum(group["machines"] for group in plan["machine_groups"])
    assert [stage["machine_group"] for stage in plan["stages"]] == list(range(len(plan["stages"])))
    code, again, _ = run("evaluate", path, output, "--json")
    assert code == 0
    assert again is not None
    assert again["objective"] == found["objective"]


def test_the_command_line_overrides_the_file(piper: Path) -> None:
    options = ("--devices", 4, "--memory", "inf", "--microbatches", 4, "--weight-sync-per-batch", "--json")
    code, found, _ = run("solve", piper, *options)
    assert code == 0
    assert found is not None
    assert found["objective"] == pytest.approx(2.0 + 4 * 3 * 10 / (4 * 4 * 100))


def test_infeasible_says_what_would_do(piper: Path) -> None:
    code, found, err = run("solve", piper, "--memory", 2, "--json")
    assert code == 1
    assert found is not None
    assert (found["status"], found["objective"], found["plan"]) == ("infeasible", None, None)
    assert "layer 7 (in) needs 3 B alone" in found["reason"]
    assert "(4 bytes)" in found["reason"]
    assert "infeasible" in err


def test_too_few_devices_for_a_degree(tmp_path: Path) -> None:
    fields = document()
    fields["nodes"][1]["TMPCs"] = {"4": fields["nodes"][1]["TMPCs"]["1"]}
    path = tmp_path / "p.json"
    path.write_text(json.dumps(fields))
    code, found, _ = run("solve", path, "--json")
    assert code == 1
    assert found is not None
    assert "layer 9 (out) needs at least 4 devices" in found["reason"]


def test_bound(piper: Path) -> None:
    code, found, _ = run("bound", piper, "--json")
    assert code == 0
    assert found is not None
    assert found["bound"] == pytest.approx(4.1, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "{file}", "--max-replicas", "2"), "hybrid problem"),
        (("solve", "{file}", "--cpus", "2"), "--cpus means nothing for"),
        (("solve", "{file}", "--solver", "slicing"), "no solver 'slicing' for hybrid"),
        (("solve", "{file}", "--scale-communication", "0"), "scale"),
        (("solve", "{file}", "--devices", "0"), "--devices 0 is out of range"),
        (("solve", "{file}", "--split-output", "s.json"), "--output"),
        (("evaluate", "{file}", "{file}"), "partita.result"),
    ],
)
def test_usage(piper: Path, arguments: tuple[str, ...], message: str) -> None:
    code, _, err = run(*(argument.format(file=piper) for argument in arguments))
    assert code == 2
    assert message in err


def test_a_throughput_file_is_no_hybrid_problem(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"maxSizePerFPGA": 1, "maxFPGAs": 1, "maxCPUs": 0, "nodes": [], "edges": []}))
    with pytest.raises((UnsupportedError, InputError)):
        pt.read_problem(path, problem="hybrid")


@pytest.mark.parametrize(
    ("devices", "gib", "expected"), [(8, 8, 0.16585575), (64, 8, 0.02095734), (512, 8, 0.00284504), (8, 4, None)]
)
def test_published_values(published_data: Path, devices: int, gib: int, expected: float | None) -> None:
    problem = pt.read_problem(published_data / "piper" / "bert32a100.json")
    assert isinstance(problem, HybridProblem)
    result = pt.solve(
        problem.replace(
            devices=devices,
            memory_bytes=gib * 2**30,
            bandwidth_bytes_per_unit=25 * 2**30,
            microbatches=512,
            weight_sync_per_batch=True,
        ),
        explain=False,
    )
    if expected is None:
        assert result.status == "infeasible"
        return
    assert result.status == "optimal"
    assert result.objective == pytest.approx(expected, rel=1e-4)
    assert result.plan is not None
    assert pt.evaluate(result.problem, result.plan) == result.evaluation


def test_the_clock_leaves_a_plan_and_a_valid_bound(published_data: Path) -> None:
    problem = pt.read_problem(published_data / "piper" / "gnmt.json")
    assert isinstance(problem, HybridProblem)
    tight = problem.replace(devices=32, memory_bytes=0.8 * 2**30, bandwidth_bytes_per_unit=25 * 2**30)
    result = pt.solve(tight, time_limit_s=0.6)
    assert result.runtime_s < 5.0
    assert result.status in ("feasible", "optimal", "unknown")
    assert result.bound is None or result.bound.value <= 16.9754 * (1 + 1e-6)
