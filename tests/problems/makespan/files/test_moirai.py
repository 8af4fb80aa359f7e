"""The moirai format: every field, and the published files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from partita.engines.mip.schedule import schedule_refusal
from partita.ground.errors import FormatError, InputError
from partita.problems import kind_of
from partita.problems.makespan.files.moirai import read_moirai
from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanProblem

needs_program = pytest.mark.skipif(schedule_refusal() is not None, reason="ortools is not installed")


def document(**changes: Any) -> dict[str, Any]:
    found = {
        "devices": [{"memory_bits": 8.0}, {"memory_bits": None, "name": "big", "ignored": 1}],
        "operators": [
            {"id": 0, "time_ms": [1.0, 2.0], "memory_bits": 3.0, "name": "conv"},
            {"id": 1, "time_ms": [4.0, None], "type": "pool"},
            {"id": 3, "time_ms": [1.0, 1.0]},
        ],
        "flows": [{"id": 2, "source": 0, "target": 1, "time_ms": [[0.0, 0.5], [0.25, 0.0]]}],
        "precedence": [[0, 3]],
    }
    return {**found, **changes}


def write(tmp_path: Path, value: Any) -> Path:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(value))
    return path


def test_every_field(tmp_path: Path) -> None:
    """Recognised by its keys; units stay, and are said."""
    assert pt.read_problem(write(tmp_path, document())) == MakespanProblem(
        name="small",
        unit="ms",
        memory_unit="bits",
        notes=("times are in milliseconds, memory is in bits, as in the file",),
        devices=(Device(name="device 0", memory=8.0), Device(name="big")),
        operators=(
            MakespanOperator(id=0, times=(1.0, 2.0), memory=3.0, name="conv"),
            MakespanOperator(id=1, times=(4.0, None), type="pool"),
            MakespanOperator(id=3, times=(1.0, 1.0)),
        ),
        flows=(MakespanFlow(id=2, source=0, target=1, times=((0.0, 0.5), (0.25, 0.0))),),
        precedence=((0, 3),),
    )


def test_communication_is_scaled(tmp_path: Path) -> None:
    found = pt.read_problem(write(tmp_path, document()), format="moirai", scale_communication=4.0)
    assert isinstance(found, MakespanProblem)
    assert found.flows[0].times == ((0.0, 2.0), (1.0, 0.0))
    assert read_moirai(json.dumps(document()).encode(), "small.json").flows[0].times == ((0.0, 0.5), (0.25, 0.0))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"operators": [{"id": 0}]}, FormatError, "time_ms"),
        ({"flows": {}}, FormatError, "flows"),
        ({"devices": [{"memory_bits": 8.0}]}, InputError, "operator 0 .conv.: times has 2 entries"),
        ({"precedence": [[0, 9]]}, InputError, "there is no operator with id 9"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        pt.read_problem(write(tmp_path, document(**changes)))


def test_result_files(tmp_path: Path, partita: Any) -> None:
    """``plan.operators`` and ``plan.flows`` as documented, and the same plan when it is read again."""
    path, output = write(tmp_path, document()), tmp_path / "r.json"
    run = partita("solve", path, "--output", output, "--json", "--time-limit", "20")
    assert run.code == 0, run.err
    said, kept = run.document, json.loads(output.read_text())
    assert said["objective"] == kept["objective"] == 5.0
    assert (said["status"], said["unit"]) == ("optimal", "ms")
    assert said["gap"] <= 1e-9
    assert kept["plan"]["operators"]["0"] == {"device": 0, "start": 0.0, "end": 1.0}
    problem = pt.read_problem(path)
    for identity, sent in kept["plan"]["flows"].items():
        assert identity == "2"
        assert set(sent) == {"from", "to", "start", "end"}
    run = partita("evaluate", path, output, "--json")
    assert (run.document["objective"], run.document["feasible"]) == (5.0, True)
    assert pt.evaluate(problem, kind_of(problem).files.read_plan(output, problem)).objective == 5.0


@needs_program
def test_example_1(published_data: Path) -> None:
    """Its proven optimum is 30; the drawing published with it has 31."""
    problem = pt.read_problem(published_data / "moirai" / "example-1.json")
    result = pt.solve(problem, time_limit_s=20.0)
    assert (result.status, result.objective) == (pt.Status.OPTIMAL, 30.0)
    assert pt.bound(problem, "critical path").value == pytest.approx(28.0)


@pytest.mark.parametrize(("name", "operators", "flows"), [("googlenet", 141, 166), ("inceptionv4", 491, 544)])
def test_published_files_are_read(published_data: Path, name: str, operators: int, flows: int) -> None:
    """All bounds are below what a short annealing finds, and separators prove no less than chains."""
    problem = pt.read_problem(published_data / "moirai" / f"{name}.json")
    assert isinstance(problem, MakespanProblem)
    assert (len(problem.operators), len(problem.flows)) == (operators, flows)
    result = pt.solve(problem, solver="annealing", time_limit_s=3.0)
    bounds = {method: pt.bound(problem, method).value for method in ("critical path", "work", "separators")}
    assert bounds["work"] < bounds["critical path"] <= bounds["separators"] * (1 + 1e-9)
    assert bounds["separators"] < (result.objective or 0.0)


@pytest.mark.slow
@needs_program
@pytest.mark.parametrize(("name", "optimum"), [("googlenet", 1.27811), ("inceptionv4", 9.98804)])
def test_published_files_are_proven(published_data: Path, name: str, optimum: float) -> None:
    result = pt.solve(pt.read_problem(published_data / "moirai" / f"{name}.json"), time_limit_s=400.0)
    assert result.status is pt.Status.OPTIMAL
    assert result.objective == pytest.approx(optimum, rel=1e-6)
