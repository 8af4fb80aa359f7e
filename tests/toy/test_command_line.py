"""A problem from elsewhere, once registered, has every command."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from partita.documents.stated import write_problem
from running.command_line import Run
from toy.samples import MANY
from toy.tasks import TaskProblem

DRIVER = Path(__file__).parent / "driver.py"


def test_solve(partita: Callable[..., Run], tasks_file: Path) -> None:
    document = partita("solve", tasks_file, "--json").document
    assert document["objective"] == document["bound"] == 6.0
    assert document["status"] == "optimal"
    assert document["plan"] == {"machines": [1, 1, 2, 2, 2, 0]}
    changed = partita("solve", tasks_file, "--machines", 2, "--assignment", "consecutive", "--json").document
    assert changed["objective"] == 9.0
    assert changed["plan"] == {"machines": [0, 0, 0, 1, 1, 1]}
    shown = partita("solve", tasks_file)
    assert "machines: (1, 1, 2, 2, 2, 0)" in shown.out
    assert "objective 6 s, proven bound 6 s, gap 0.0000%" in shown.out


def test_infeasible(partita: Callable[..., Run], tasks_file: Path) -> None:
    run = partita("solve", tasks_file, "--most-tasks", 1, "--json")
    assert run.code == 1
    assert run.document["status"] == "infeasible"
    assert run.document["reason"] == "no plan satisfies every constraint"


def test_a_result_file_is_evaluated_and_compared(partita: Callable[..., Run], tasks_file: Path, tmp_path: Path) -> None:
    result = tmp_path / "r.json"
    assert partita("solve", tasks_file, "--output", result).code == 0
    assert partita("evaluate", tasks_file, result, "--json").document["objective"] == 6.0
    worse = partita("evaluate", tasks_file, result, "--most-tasks", 2, "--json").document
    assert worse["feasible"] is False
    assert worse["violations"] == ["machine 2 takes 3 tasks, at most 2 fit"]
    document = partita("compare", tasks_file, "--expert", result, "--json").document
    rows = {row["name"]: row["objective"] for row in document["baselines"]}
    assert rows == {"list order": 8.0, "expert r": 6.0}
    table = partita("compare", tasks_file).out
    assert "list order" in table
    assert "+33.3% time" in table


def test_bound(partita: Callable[..., Run], tasks_file: Path) -> None:
    document = partita("bound", tasks_file, "--json").document
    assert document["bound"] == 6.0
    assert [part["method"] for part in document["methods"]] == ["mean", "branching"]
    assert partita("bound", tasks_file, "--method", "mean", "--machines", 2, "--json").document["bound"] == 8.5
    assert "no plan is better than 6 s" in partita("bound", tasks_file).out


def test_sweep(partita: Callable[..., Run], tasks_file: Path, tmp_path: Path) -> None:
    output, table, plot = tmp_path / "s.json", tmp_path / "s.csv", tmp_path / "s.png"
    pytest.importorskip("matplotlib")
    run = partita(
        "sweep", tasks_file, "--machines", "1,2,3", "--output", output, "--csv", table, "--plot", plot, "--json"
    )
    assert run.code == 0
    assert [(row["machines"], row["objective"]) for row in run.document["rows"]] == [(1, 17.0), (2, 9.0), (3, 6.0)]
    assert json.loads(output.read_text()) == run.document
    with table.open() as stream:
        assert [row["baseline_objective"] for row in csv.DictReader(stream)] == ["17.0", "10.0", "8.0"]
    assert plot.stat().st_size > 1000
    assert "6 s" in partita("sweep", tasks_file, "--machines", "3").out


def test_axes_have_the_limits_of_what_they_change(partita: Callable[..., Run], tasks_file: Path) -> None:
    for text in ("0", "1.5", "2,2"):
        run = partita("sweep", tasks_file, "--machines", text)
        assert run.code == 2
        assert "--machines" in run.err
    assert "the number of" not in run.err


def test_listings(partita: Callable[..., Run], tasks: TaskProblem) -> None:
    for listing, name in (
        ("problems", "tasks"),
        ("solvers", "branching"),
        ("bounds", "mean"),
        ("baselines", "list order"),
    ):
        assert name in {row["name"] for row in partita(listing, "--json").document[listing]}
        assert any(name in line for line in partita(listing).out.splitlines())


@pytest.mark.parametrize("command", ["solve", "bound", "compare", "sweep", "evaluate"])
def test_help_has_its_own_group(partita: Callable[..., Run], tasks: TaskProblem, command: str) -> None:
    page = partita(command, "--help").out
    group = page.split("Tasks problems:")[1].split("\n\n")[0]
    assert "--assignment [any|consecutive]" in group
    assert "--machines N" in (page if command == "sweep" else group)


@pytest.mark.parametrize("command", ["solve", "bound", "compare", "sweep"])
def test_flags_of_other_problems_are_refused(partita: Callable[..., Run], tasks_file: Path, command: str) -> None:
    for flag, value in (("--contiguity", "free"), ("--max-replicas", "2"), ("--working-memory", "peak")):
        run = partita(command, tasks_file, flag, value)
        assert run.code == 2
        assert f"{flag} means nothing" in run.err
    assert partita("sweep", tasks_file, "--devices", 2).code == 2
    run = partita("solve", tasks_file, "--split-output", "split.json")
    assert run.code == 2
    assert "--split-output does not write tasks plans" in run.err
    run = partita("solve", tasks_file, "--scale-communication", 2)
    assert run.code == 2
    assert "tasks problems have no communication to scale" in run.err
    run = partita("solve", tasks_file, "--solver", "slicing")
    assert run.code == 2
    assert "it is one for throughput problems" in run.err


def test_its_flags_are_refused_of_other_problems(
    partita: Callable[..., Run], tasks: TaskProblem, tmp_path: Path
) -> None:
    path = tmp_path / "chain.txt"
    chain = {"maxFPGAs": 1, "maxCPUs": 0, "maxSizePerFPGA": 1.0, "edges": []}
    chain["nodes"] = [
        {"id": 0, "name": "a", "supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": 0, "size": 0}
    ]
    path.write_text(json.dumps(chain))
    run = partita("solve", path, "--assignment", "consecutive")
    assert run.code == 2
    assert "--assignment means nothing" in run.err


def test_models_do_not_become_one(partita: Callable[..., Run], tasks_file: Path, tmp_path: Path) -> None:
    run = partita("plan", "model.py:make", "--cluster", "2xA100-80GB", "--objective", "tasks")
    assert run.code == 2
    assert "no objective 'tasks' for models" in run.err
    run = partita("convert", tasks_file, "--output", tmp_path / "p.json")
    assert run.code == 2
    assert "tasks problems have no simpler form" in run.err


def test_interrupt_saves_the_best_plan(tmp_path: Path) -> None:
    problem, output = tmp_path / "many.json", tmp_path / "r.json"
    write_problem(problem, MANY)
    process = subprocess.Popen(
        [sys.executable, str(DRIVER), "solve", str(problem), "--time-limit", "120", "--output", str(output), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "first plan\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    document = json.loads(output.read_text())
    # A file also holds the problem.
    assert document["problem"].pop("stated")["format"] == "toy.tasks"
    assert json.loads(out) == document
    assert document["stop_reason"] == "interrupted"
    assert len(document["plan"]["machines"]) == 60
    assert 0 < document["bound"] <= document["objective"]
