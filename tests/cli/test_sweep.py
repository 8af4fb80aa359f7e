"""partita sweep on the command line, and what neighbouring points prove about each other."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.conftest import workload
from instances.strategies import examples, plans, throughput_problems
from partita.conductor.solve import run_solver
from partita.conductor.sweep import Point, grid, sweep
from partita.engines.search.result import StopReason
from partita.ground.errors import InputError
from partita.problems import find_kind
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.variants import scale_bandwidth
from running.command_line import Run
from second_opinions import brute_force

Call = Callable[..., Run]


def test_rows_of_a_chain(partita: Call, chain: Path, tmp_path: Path) -> None:
    """Times 2, 3, 4, transfers 1.

    One device: 9. Two: {a, b} | {c} = max(5 + 1, 4 + 1) = 6. Three: max(2 + 1, 3 + 2, 4 + 1) = 5. At half the bandwidth
    transfers take 2: 9, then max(5 + 2, 4 + 2) = 7 (a | b, c: 7 + 2), then max(2 + 2, 3 + 4, 4 + 2) = 7.
    """
    table = tmp_path / "rows.csv"
    run = partita("sweep", chain, "--devices", "1,2,3", "--bandwidth", "0.5,1", "--json", "--csv", table)
    assert run.code == 0
    rows = run.document["rows"]
    assert [(row["devices"], row["bandwidth"], row["objective"]) for row in rows] == [
        (1, 0.5, 9.0),
        (1, 1.0, 9.0),
        (2, 0.5, 7.0),
        (2, 1.0, 6.0),
        (3, 0.5, 7.0),
        (3, 1.0, 5.0),
    ]
    assert all(row["status"] == "optimal" and row["gap"] <= 1e-6 for row in rows)
    assert all(row["baseline_objective"] >= row["objective"] for row in rows)
    with table.open() as stream:
        written = list(csv.DictReader(stream))
    assert [float(row["objective"]) for row in written] == [row["objective"] for row in rows]


def test_infeasible_points_are_rows(partita: Call, chain: Path) -> None:
    """Ten bytes an operator: with 15 a device holds one operator, so two devices are too few and three are enough."""
    run = partita("sweep", chain, "--devices", "2,3", "--memory", "15,inf", "--json")
    assert run.code == 0
    found = {(row["devices"], row["memory_bytes"]): row for row in run.document["rows"]}
    assert found[2, 15.0]["objective"] is None
    assert found[2, 15.0]["status"] == "infeasible"
    assert found[2, 15.0]["reason"]
    assert found[3, 15.0]["objective"] == 5.0
    assert found[2, None]["objective"] == 6.0


def test_table_and_plot(partita: Call, chain: Path, tmp_path: Path) -> None:
    """A table for people, and a picture with the extra."""
    pytest.importorskip("matplotlib")
    picture = tmp_path / "rows.png"
    run = partita("sweep", chain, "--devices", "1:3", "--plot", picture)
    assert run.code == 0
    assert "best baseline" in run.out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_plot_names_its_extra(partita: Call, chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any search."""
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    run = partita("sweep", chain, "--devices", "2", "--plot", "x.png")
    assert run.code == 2
    assert "partita[plot]" in run.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--devices", "2,x"), "'x' is no number, list such as 8,16,32 or range such as 8:64"),
        (("--devices", "2,2"), "twice"),
        (("--devices", "8:2"), "low end 8 above its high end 2"),
        (("--devices", "0"), "range"),
        (("--bandwidth", "-1"), "range"),
        (("--memory", "nan"), "range"),
        (("--csv", "/no/such/folder/x.csv"), "does not exist"),
    ],
)
def test_bad_lists(partita: Call, chain: Path, arguments: tuple[str, ...], message: str) -> None:
    """One message, status 2."""
    run = partita("sweep", chain, *arguments)
    assert run.code == 2
    assert message in run.err


def test_ctrl_c_writes_the_rows_so_far(
    partita: Call, chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second point is interrupted: its best plan and the first row are written, status 130."""
    import dataclasses

    calls: list[int] = []

    def interrupted(problem: ThroughputProblem, *arguments: Any, **options: Any) -> object:
        calls.append(problem.device_count)
        result = run_solver(problem, *arguments, **options)
        return dataclasses.replace(result, stop_reason=StopReason.INTERRUPTED) if len(calls) == 2 else result

    monkeypatch.setattr("partita.conductor.sweep.run_solver", interrupted)
    table = tmp_path / "rows.csv"
    run = partita("sweep", chain, "--devices", "1,2,3", "--csv", table, "--json")
    assert run.code == 130
    assert run.document["interrupted"]
    # Most relaxed first: three devices, then two.
    assert [row["devices"] for row in run.document["rows"]] == [2, 3]
    assert len(table.read_text().splitlines()) == 3


def test_a_model_replaces_the_count(partita: Call, tmp_path: Path) -> None:
    """Traced once, priced for every count; a cluster of two kinds cannot be counted."""
    pytest.importorskip("torch")
    model = tmp_path / "model.py"
    model.write_text(
        "import torch\n"
        "def build():\n"
        "    layers = [torch.nn.Linear(64, 64) for _ in range(4)]\n"
        "    return torch.nn.Sequential(*layers), (torch.zeros(8, 64),)\n"
    )
    run = partita("sweep", f"{model}:build", "--cluster", "A100-80GB", "--devices", "1,2", "--json")
    assert run.code == 0
    assert [row["devices"] for row in run.document["rows"]] == [1, 2]
    assert run.document["unit"] == "s"
    run = partita("sweep", f"{model}:build", "--cluster", "A100-80GB+L4", "--devices", "1,2")
    assert run.code == 2
    assert "one kind" in run.err


def test_work_is_reused(chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a bound is met by a plan of a neighbour, nothing is solved again.

    With transfers of 100 one device is best, so the optimum for four devices is the one for three, two and one.
    """
    from partita.problems.importers import read_problem

    chain.write_text(json.dumps(workload(edges=[{"sourceId": 0, "destId": 1, "cost": 100.0}])))
    base = read_problem(chain).replace(memory_bytes=float("inf"))
    solved: list[int] = []

    def counted(problem: ThroughputProblem, *arguments: Any, **options: Any) -> object:
        solved.append(problem.device_count)
        return run_solver(problem, *arguments, **options)

    monkeypatch.setattr("partita.conductor.sweep.run_solver", counted)
    found = sweep(grid({"devices": [1, 2, 3, 4]}), lambda point: base.replace(accelerators=point["devices"]))
    # c is not tied to the others here: two devices give max(2 + 3, 4) = 5, which no number of devices beats.
    assert [row.result.objective for row in found.points] == [9.0, 5.0, 5.0, 5.0]
    assert solved == [4, 1]
    assert all(row.result.gap is not None and row.result.gap <= 1e-6 for row in found.points)


def test_a_harder_points_plan_is_handed_on(chain: Path) -> None:
    """A solver that only ever uses one device is improved by its baselines, never made worse by its neighbours."""
    from partita.problems.importers import read_problem

    base = read_problem(chain)
    found = sweep(
        grid({"devices": [1, 2, 3]}), lambda point: base.replace(accelerators=point["devices"]), solver="single-device"
    )
    objectives = [row.result.objective for row in found.points]
    assert all(value is not None for value in objectives)
    assert objectives == sorted(objectives, key=lambda value: -(value or 0.0))


@examples(60)
@given(data=st.data(), problem=throughput_problems(supported_somewhere=True))
def test_relaxing_is_what_it_claims(data: st.DataObject, problem: ThroughputProblem) -> None:
    """More devices, memory or bandwidth relaxes; then any feasible plan stays feasible and costs no more."""
    kinds = tuple(
        msgspec.structs.replace(
            kind,
            count=kind.count if problem.groups else kind.count + data.draw(st.integers(0, 2)),
            memory_bytes=None if kind.memory_bytes is None else kind.memory_bytes + data.draw(st.integers(0, 5)),
        )
        for kind in problem.kinds
    )
    easier = scale_bandwidth(problem.replace(kinds=kinds), data.draw(st.sampled_from([1.0, 2.0])))
    assert find_kind("throughput").sweep.relaxes(easier, problem)
    plan = data.draw(plans(problem))
    before, after = evaluate(problem, plan), evaluate(easier, plan)
    assert after.feasible or not before.feasible
    assert after.objective <= before.objective * (1 + 1e-12)


@examples(12)
@given(problem=throughput_problems(max_operators=5, kinds=(1, 1), max_count=2, schedules=("inference", "1f1b")))
def test_a_sweep_agrees_with_brute_force(problem: ThroughputProblem) -> None:
    """Objectives, bounds and infeasibility of every point."""
    counts = [1, 2, 3]

    def at(point: Point) -> ThroughputProblem:
        kinds = (msgspec.structs.replace(problem.kinds[0], count=point["devices"]),)
        return scale_bandwidth(problem.replace(kinds=kinds), point["bandwidth"])

    found = sweep(grid({"devices": counts, "bandwidth": [1.0, 2.0]}), at, time_limit_s=20.0)
    for row in found.points:
        best = brute_force.best(at(row.point), "acyclic")
        assert row.result.objective == pytest.approx(best) if best is not None else row.result.objective is None
        assert row.result.bound is None or best is None or row.result.bound.value <= best * (1 + 1e-6) + 1e-9


def test_gpipe_with_more_microbatches_is_not_relaxed(chain: Path) -> None:
    """More devices with more microbatches may need more memory; 1F1B holds no more than it has stages."""
    from partita.problems.importers import read_problem

    base = read_problem(chain)

    def variant(devices: int, name: str, microbatches: int) -> ThroughputProblem:
        schedule = msgspec.structs.replace(base.schedule, name=name, microbatches=microbatches)
        return base.replace(accelerators=devices, schedule=schedule)

    assert not find_kind("throughput").sweep.relaxes(variant(3, "gpipe", 12), variant(2, "gpipe", 8))
    assert find_kind("throughput").sweep.relaxes(variant(3, "1f1b", 12), variant(2, "1f1b", 8))
    assert not find_kind("throughput").sweep.relaxes(variant(3, "1f1b", 12), variant(2, "1f1b", 1))
    with pytest.raises(InputError):
        base.replace(accelerators=-1)


def test_ctrl_c_during_a_baseline_counts(partita: Call, chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal while the first baseline runs: the point's row is kept, and the command ends with 130."""
    import signal

    from partita.problems.throughput.baselines.rules import Unsplit

    original = Unsplit.solve

    def signalled(self: Unsplit, *arguments: object) -> object:
        signal.raise_signal(signal.SIGINT)
        return original(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Unsplit, "solve", signalled)
    run = partita("sweep", chain, "--devices", "1,2,3", "--json")
    assert run.code == 130
    assert [row["objective"] for row in run.document["rows"]] == [5.0]
    run = partita("compare", chain, "--json")
    assert run.code == 130
    assert run.document["objective"] == 6.0
