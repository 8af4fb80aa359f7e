"""``partita map``: files with and without devices, what comes out, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from partita.conductor.documents import result_document
from partita.conductor.place import placing_facet, staged_plan
from partita.documents.document import write_json
from partita.documents.result_file import with_problem
from partita.documents.stated import write_problem
from partita.engines.search.result import Result, Status, StopReason
from partita.nouns.pipeline import Plan, Stage
from partita.nouns.topology import topology
from partita.problems.makespan.samples import DIAMOND
from partita.problems.planned import read_planned
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import (
    DeviceKind,
    MicrobatchSchedule,
    MovedTensor,
    StoredParameter,
    ThroughputProblem,
    TimedOperator,
)
from running.command_line import Run

PIPELINE: dict[str, Any] = {
    "format": "partita.mapping",
    "version": 1,
    "replicas": 2,
    "stages": [
        {"name": "front", "time_s": 0.01, "parameter_bytes": 1e6},
        {"name": "back", "time_s": 0.01, "parameter_bytes": 1e6},
    ],
    "transfers": [{"source": 0, "target": 1, "bytes": 1e8}],
}
FAST, SLOW = 10e9, 1e9
MATRIX = [[0, FAST, SLOW, SLOW], [FAST, 0, SLOW, SLOW], [SLOW, SLOW, 0, FAST], [SLOW, SLOW, FAST, 0]]


def file(folder: Path, **changes: Any) -> str:
    """The pipeline with changes; None takes a key out."""
    document = {**PIPELINE, "bandwidth_bytes_per_s": MATRIX, **changes}
    path = folder / "pipeline.json"
    path.write_text(json.dumps({key: value for key, value in document.items() if value is not None}))
    return str(path)


def test_a_file_as_it_is(partita: Callable[..., Run], tmp_path: Path) -> None:
    """Each replica's stages share a machine; the result file holds the placement, and is read again."""
    path, result = file(tmp_path), tmp_path / "r.json"
    run = partita("map", path, "--output", result, "--json")
    assert run.code == 0
    assert run.document["objective"] == pytest.approx(0.01 + 1e8 / FAST + 1e6 / SLOW)
    assert run.document["status"] == "optimal"
    placement = run.document["plan"]["placement"]
    assert [{device // 2 for device in chain} for chain in zip(*placement, strict=True)] in ([{0}, {1}], [{1}, {0}])
    critical = run.document["critical"]
    assert critical["compute"] + critical["point_to_point"] + critical["all_reduce"] == run.document["objective"]
    assert critical["link"]["what"] == "transfers with stage 1"
    again = partita("evaluate", path, result, "--json")
    assert again.document["objective"] == run.document["objective"]


def test_people_get_tables(partita: Callable[..., Run], tmp_path: Path) -> None:
    """Stages, the slowest replica, its link, and the orders that people take."""
    run = partita("map", file(tmp_path))
    assert run.code == 0
    for said in ("front", "Beside it", "consecutive", "point-to-point-first", "×5.2", "critical link"):
        assert said in run.out, said


def test_devices_may_come_from_a_topology(partita: Callable[..., Run], tmp_path: Path) -> None:
    """By name, or as a matrix in CSV; without any, the message says so."""
    path = file(tmp_path, bandwidth_bytes_per_s=None)
    run = partita("map", path)
    assert run.code == 2
    assert "--topology" in run.err
    run = partita("map", path, "--topology", "two-level:2x2:inside=10GB/s:between=1GB/s", "--json")
    assert run.document["objective"] == pytest.approx(0.021)
    table = tmp_path / "m.csv"
    table.write_text("\n".join(",".join(f"{entry:g}" for entry in row) for row in MATRIX))
    run = partita("map", path, "--topology", table, "--json")
    assert run.code == 0, run.err
    assert run.document["objective"] == pytest.approx(0.021)


def test_forms(partita: Callable[..., Run], tmp_path: Path) -> None:
    """Each leaves a term out."""
    path = file(tmp_path)
    assert partita("map", path, "--form", "point-to-point", "--json").document["objective"] == pytest.approx(0.02)
    assert partita("map", path, "--form", "all-reduce", "--json").document["objective"] == pytest.approx(0.0101)


def test_too_few_devices_are_infeasible(partita: Callable[..., Run], tmp_path: Path) -> None:
    """With how many are missing."""
    run = partita("map", file(tmp_path, replicas=3), "--json")
    assert run.code == 1
    assert run.document["status"] == "infeasible"
    assert run.document["objective"] is None
    assert "need 6 devices, and there are 4" in run.document["reason"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"replicas": 0}, "replicas is 0"),
        ({"replicas": "two"}, "replicas"),
        ({"stages": []}, "no stages"),
        ({"stages": [{"name": "a", "time_s": -1}]}, "time_s is -1"),
        ({"stages": [{"name": "a"}]}, "time_s"),
        ({"transfers": [{"source": 0, "target": 7, "bytes": 1}]}, "no stage 7"),
        ({"bandwidth_bytes_per_s": [[0, 1], [1]]}, "row 1"),
        ({"bandwidth_bytes_per_s": [[0, -1], [1, 0]]}, "device 0 to device 1 is -1"),
        ({"colour": 1}, "colour"),
        ({"version": 2}, "version 2"),
    ],
)
def test_bad_files_get_one_message(
    partita: Callable[..., Run], tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    """That names what is wrong; no traceback."""
    run = partita("map", file(tmp_path, **changes))
    assert run.code == 2
    assert said in run.err
    assert run.err.count("\n") == 1


def test_other_problems_are_for_solve(partita: Callable[..., Run], tmp_path: Path) -> None:
    """And solve takes mappings, too."""
    assert partita("solve", file(tmp_path), "--json").document["objective"] == pytest.approx(0.021)
    other = tmp_path / "other.json"
    write_problem(other, DIAMOND)
    run = partita("map", other)
    assert run.code == 2
    assert "partita solve" in run.err


def test_compare_bound_and_sweep(partita: Callable[..., Run], tmp_path: Path) -> None:
    """The shared verbs know mappings."""
    path = file(tmp_path)
    rows = {row["name"]: row["objective"] for row in partita("compare", path, "--json").document["baselines"]}
    assert rows["consecutive"] == pytest.approx(0.1101)
    assert {"point-to-point-first", "parmesan"} <= rows.keys()
    assert partita("bound", path, "--json").document["bound"] == pytest.approx(0.021, rel=1e-5)
    points = partita("sweep", path, "--bandwidth", "1,2", "--json").document["rows"]
    assert [row["objective"] for row in points] == pytest.approx([0.021, 0.0155])


def split(folder: Path) -> str:
    """A result file of a training split into two stages, two replicas each, priced in bytes and seconds."""
    problem = ThroughputProblem(
        name="net",
        unit="s",
        kinds=(DeviceKind(name="gpu", count=4, transfer_time_per_unit=1e-9),),
        operators=(
            TimedOperator(id=0, times=(0.01,)),
            TimedOperator(id=1, times=(0.03,)),
            TimedOperator(id=2, times=(0.06,), backward=True),
            TimedOperator(id=3, times=(0.02,), backward=True),
        ),
        tensors=(
            MovedTensor(producer=0, consumers=(1,), size=1e6),
            MovedTensor(producer=1, consumers=(2,), size=1e6),
            MovedTensor(producer=2, consumers=(3,), size=2e6),
        ),
        parameters=(
            StoredParameter(name="a", users=(0, 3), weight_bytes=4e6, gradient_bytes=4e6),
            StoredParameter(name="b", users=(1, 2), weight_bytes=8e6, gradient_bytes=8e6),
        ),
        schedule=MicrobatchSchedule(microbatches=8),
        max_replicas=2,
    )
    plan = Plan(
        stages=(
            Stage(
                devices=(
                    "gpu:0",
                    "gpu:1",
                ),
                kind="gpu",
                operators=(0, 3),
                data_parallel=2,
            ),
            Stage(
                devices=(
                    "gpu:2",
                    "gpu:3",
                ),
                kind="gpu",
                operators=(1, 2),
                data_parallel=2,
            ),
        )
    )
    evaluation = evaluate(problem, plan)
    result = Result(
        problem=problem,
        plan=plan,
        evaluation=evaluation,
        bound=None,
        status=Status.FEASIBLE,
        stop_reason=StopReason.FINISHED,
        runtime_s=0.0,
        solver="by hand",
        seed=0,
    )
    path = folder / "split.json"
    write_json(path, with_problem(result_document(result), problem))
    return str(path)


def test_a_plan_of_stages_is_placed(partita: Callable[..., Run], tmp_path: Path) -> None:
    """Eight microbatches on two replicas: four each; forward and backward tensors; gradients once."""
    path = split(tmp_path)
    where = "two-level:2x2:inside=10GB/s:between=1GB/s"
    planned = read_planned(path)
    problem = placing_facet().placing(staged_plan(planned.problem, planned.plan), topology(where)).problem
    assert problem.replicas == 2
    assert [stage.time_s for stage in problem.stages] == pytest.approx([4 * 0.03, 4 * 0.09])
    assert [stage.parameter_bytes for stage in problem.stages] == [4e6, 8e6]
    sent = {(one.source, one.target): one.bytes for one in problem.transfers}
    assert sent == {(0, 1): 4e6, (1, 0): 8e6}
    run = partita("map", path, "--topology", where, "--json")
    assert run.code == 0, run.err
    assert run.document["objective"] == pytest.approx(0.36 + min(12e6 / 10e9 + 8e6 / 1e9, 12e6 / 1e9 + 8e6 / 10e9))
